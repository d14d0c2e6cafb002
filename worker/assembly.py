"""Build the parts of a worker from its settings; `app.py` puts them to work."""

from __future__ import annotations

import os
import socket
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from worker import endpoints
from worker.configuration import named
from worker.consuming.consumer import Consumer
from worker.consuming.delivery import DeliveryDesk, DeliveryOptions
from worker.consuming.heartbeat import HeartbeatOptions
from worker.consuming.housekeeping import Housekeeper
from worker.core.opening import Opening
from worker.core.sharding import shard_name
from worker.core.task import Task
from worker.guard.fleet import Fleet
from worker.guard.guards import Guards
from worker.http import HttpClient, HttpOptions
from worker.intake import check_cost
from worker.model.port import Model
from worker.observability import Observability, breakers_measured, own_version, slots_measured
from worker.outbound.fetch import fetch_guarded
from worker.queues.told import TelledQueue
from worker.registry import Registry
from worker.running.calls import CallerOptions, ToolCaller
from worker.running.handoffs import HandoffRules, rules_of
from worker.running.runner import Runner
from worker.running.toolguard import ToolGuards, default_policy, policies_of
from worker.running.waitingroom import WaitingOptions, WaitingRoom
from worker.settings import Settings
from worker.store.port import Store

if TYPE_CHECKING:
    from worker.mcp.servers import McpServers


def worker_name() -> str:
    """What results and log lines call this worker: host and process."""
    return f"{socket.gethostname()}:{os.getpid()}"


def owner_name() -> str:
    """What leases are held under: never the same twice, also after a restart on the same host."""
    return f"{worker_name()}:{uuid.uuid4().hex[:12]}"


def build_guards(settings: Settings, registry: Registry, seen: Observability) -> Guards:
    """One guard per dependency: the model's, and one for each that tools name."""
    guard = settings.guard_with_room()
    policies = policies_of(list(registry), guard, settings.guards)
    policies |= endpoints.model_policies(settings)
    if settings.mcp:
        from worker.mcp.servers import mcp_policies

        policies |= mcp_policies(settings, default_policy(guard))
    guards = Guards(seen.telemetry, default_policy(guard), policies)
    for name in policies:
        guards.get(name)  # so that operators and dashboards see it before its first call
    return guards


def build_model(settings: Settings, guards: Guards, seen: Observability) -> Model:
    """The model client. Raises ConfigError when no endpoint is configured."""
    # Each run asks one question at a time, and an attempt that is left behind keeps its connection
    # for a moment: a few more than runs.
    connections = settings.concurrency + 8
    client = partial(_client, settings, seen, connections=connections)
    return endpoints.build_model(settings, guards, seen.telemetry, client=client)


def build_servers(
    settings: Settings,
    registry: Registry,
    seen: Observability,
    *,
    only: Iterable[str] | None = None,
) -> McpServers | None:
    """The MCP servers, or `only` those named; None where the settings have none.

    Raises ConfigError when what they need is not installed.
    """
    if not settings.mcp:
        return None
    from worker.mcp.servers import McpServers

    def known(names: Iterable[str]) -> None:
        tools = list(names)
        seen.metrics.prepare(tools=tools, targets=[("tool", name) for name in tools])

    return McpServers(
        settings,
        registry,
        tell=seen.telemetry.tell,
        version=own_version(),
        known=known,
        only=only,
    )


def prepare_metrics(
    settings: Settings,
    *,
    registry: Registry,
    guards: Guards,
    model: Model,
    seen: Observability,
    in_use: Callable[[], int],
) -> None:
    """Make known what this worker deals with, and read what is measured at each scrape."""
    tools = registry.names
    models = list(endpoints.model_names(model))
    seen.metrics.prepare(
        tools=tools,
        breakers=[guard.name for guard in guards.all()],
        queues=[shard_name(settings.queue.name, each) for each in _measured(settings)],
        models=models,
        targets=[*(("tool", name) for name in tools), *(("model", name) for _, name in models)],
        fallbacks=endpoints.fallback_pairs(model),
    )
    seen.metrics.add_reader(breakers_measured(guards))
    seen.metrics.add_reader(slots_measured(settings.concurrency, in_use))


def _measured(settings: Settings) -> list[int]:
    """The shards that this worker measures; its calls are counted under the name of the first."""
    return sorted({0, *settings.sharding().read})


def build_tool_client(settings: Settings, seen: Observability) -> HttpClient:
    """The pooled client that tools share."""
    return _client(settings, seen, "tools", connections=max(100, settings.concurrency * 2))


def _client(settings: Settings, seen: Observability, name: str, *, connections: int) -> HttpClient:
    outbound = settings.outbound
    options = HttpOptions(
        transport=outbound.transport,
        connections_max=connections,
        trace_hosts=frozenset(outbound.trace_hosts),
        trust_env=outbound.proxies_from_environment,
    )
    telemetry = seen.telemetry
    return HttpClient(
        options, name=name, trace_headers=telemetry.trace_headers, tell=telemetry.tell
    )


@dataclass(frozen=True, slots=True)
class Working:
    """The parts that do the work."""

    runner: Runner
    desk: DeliveryDesk
    consumer: Consumer
    housekeeper: Housekeeper
    fleet: Fleet | None = None


def build_runner(
    settings: Settings,
    *,
    model: Model,
    registry: Registry,
    guards: Guards,
    store: Store,
    http: HttpClient,
    seen: Observability,
    tool_options: Mapping[str, Any] | None = None,
) -> Runner:
    """The runner and the tool caller beneath it."""
    room = _waiting_room(settings, registry, store, seen)
    options = CallerOptions(
        max_result_chars=settings.max_result_chars,
        http=http.client,
        fetch=partial(fetch_guarded, allow_hosts=settings.outbound.allow_hosts),
        options=tool_options or {},
        redact=seen.redactor.text,
        cookie_client=http.keeping_cookies,
        keeps_state=settings.loop.group_state == "journal",
        approvals=_approvals(settings, registry),
    )
    rules = HandoffRules(
        rules_of(settings.handoff, registry), telemetry=seen.telemetry, redact=seen.redactor.text
    )
    caller = ToolCaller(
        registry,
        ToolGuards(guards, settings.guard, settings.guards, store),
        seen.telemetry,
        options,
        rules,
        room,
        clock=time.monotonic,
        wall=time.time,
    )
    with named("LOOP__POLLERS"):
        pollers = registry.pollers(settings.loop.pollers)
    return Runner(
        model=model,
        registry=registry,
        caller=caller,
        waiting=room,
        journal=store,
        telemetry=seen.telemetry,
        opening=_opening(settings, pollers),
        rules=rules,
        worker=worker_name(),
        wall=time.time,
        sessions=settings.session_options(),
        redact=seen.redactor.text,
    )


def _opening(settings: Settings, pollers: frozenset[str]) -> Opening:
    return Opening(
        limits=settings.limits(),
        deadline_seconds=settings.deadline,
        history_messages_max=settings.max_history_messages,
        history_tokens_max=settings.max_history_tokens,
        steps=settings.step_policy(),
        system_prompt=settings.system_prompt,
        pollers=pollers,
    )


def task_check(settings: Settings, registry: Registry) -> Callable[[Task], None]:
    """What a task must hold for this worker, beyond its form; the check raises TaskInvalid."""
    unpriced, model = settings.unpriced_models(), settings.model or "default"

    def check(task: Task) -> None:
        registry.offered(task.tools)
        check_cost(task, unpriced=unpriced, model=model)

    return check


def _approvals(settings: Settings, registry: Registry) -> frozenset[str]:
    with named("WAITING__APPROVALS"):
        return registry.approvals(settings.waiting.approvals)


def _waiting_room(
    settings: Settings, registry: Registry, store: Store, seen: Observability
) -> WaitingRoom:
    options = WaitingOptions(
        **settings.waiting.model_dump(exclude={"approvals"}),
        max_result_chars=settings.max_result_chars,
        redact=seen.redactor.text,
    )
    return WaitingRoom(store.mail, registry, seen.telemetry, options, wall=time.time)


def build_working(
    settings: Settings,
    *,
    runner: Runner,
    registry: Registry,
    guards: Guards,
    queue: TelledQueue,
    store: Store,
    seen: Observability,
) -> Working:
    """The consumer and what it hands deliveries to."""
    lease, owner = settings.queue.lease_seconds, owner_name()
    desk = DeliveryDesk(
        queue,
        store,
        runner,
        task_check(settings, registry),
        seen.telemetry,
        DeliveryOptions(
            owner=owner,
            worker=worker_name(),
            lease_seconds=lease,
            max_deliveries=settings.queue.max_deliveries,
            backoff_seconds=settings.queue.backoff_seconds,
            backoff_seconds_max=settings.queue.backoff_seconds_max,
            redact=seen.redactor.text,
        ),
        wall=time.time,
    )
    consumer = Consumer(
        queue,
        store,
        desk,
        seen.telemetry,
        owner=owner,
        slots=settings.concurrency,
        heartbeat=HeartbeatOptions(lease_seconds=lease, stuck_seconds=settings.loop_stuck_seconds),
        silence=seen.lag.age_seconds,
        poll_seconds=settings.queue.poll_seconds,
        clock=time.monotonic,
        # Before the last delivery in any case, or neighbours would share it with the guilty one.
        suspect_after=min(2, max(1, settings.queue.max_deliveries - 1)),
    )
    housekeeper = Housekeeper(
        queue,
        store,
        seen.telemetry,
        retention_seconds=settings.retention,
        prune_seconds=settings.worker.prune_seconds,
        worker=worker_name(),
        clock=time.monotonic,
        wall=time.time,
        parts=queue.parts,
        others=queue.others,
    )
    return Working(runner, desk, consumer, housekeeper, build_fleet(settings, guards, store))


def build_fleet(settings: Settings, guards: Guards, store: Store) -> Fleet | None:
    """What workers on one store tell each other of their breakers; None where there is but one."""
    if not settings.guard.fleet or store.system == "memory":
        return None
    return Fleet(
        store.peers,
        guards.all,
        owner=owner_name(),
        every_seconds=settings.guard.fleet_seconds,
        clock=time.monotonic,
    )
