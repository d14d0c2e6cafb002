"""One worker of a world, put together from the very parts that `worker/assembly.py` puts together."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.simulation.machine import Process
from tests.simulation.outside import REGISTRY, SimulatedModel, Site
from tests.simulation.plan import Plan
from worker.consuming.consumer import Consumer
from worker.consuming.delivery import DeliveryDesk, DeliveryOptions
from worker.consuming.heartbeat import HeartbeatOptions
from worker.consuming.housekeeping import Housekeeper
from worker.core.limits import Limits
from worker.core.opening import Opening
from worker.core.sessionbounds import SessionOptions
from worker.core.steps import StepPolicy
from worker.core.task import Task
from worker.guard.guards import Guards
from worker.guardsettings import GuardSettings
from worker.model.client import model_guard_policy
from worker.running.calls import CallerOptions, ToolCaller
from worker.running.handoffs import HandoffRules
from worker.running.runner import Runner
from worker.running.toolguard import ToolGuards, default_policy, policies_of
from worker.running.waitingroom import WaitingOptions, WaitingRoom
from worker.telemetry.redact import Redactor
from worker.telemetry.signals import BreakerChanged, ErrorUnhandled, LeaseWasLost, RunTakenOver
from worker.telemetry.tell import Listener, Telemetry

DEADLINE_SECONDS = 900.0
DRAIN_SECONDS = 5.0
SESSIONS = SessionOptions(ttl_seconds=7 * 86_400.0, bytes_max=10_000_000)
_HEARD = (BreakerChanged, ErrorUnhandled, LeaseWasLost, RunTakenOver)
_GUARD = GuardSettings()


@functools.cache
def _policies() -> dict[str, Any]:
    return policies_of(list(REGISTRY), _GUARD, {})


class Ears:
    """A listener that hands on what the checkers want to know."""

    def __init__(self, told: Callable[[Any], None]) -> None:
        self._told = told

    def hears(self, kind: type) -> bool:
        """Only a few kinds; telling costs time."""
        return kind in _HEARD

    def told(self, signal: Any) -> None:
        """Hand it on."""
        self._told(signal)

    def started(self, operation: Any) -> None:
        """Nothing of that is heard."""

    def settled(self, operation: Any, token: Any) -> None:
        """Nothing of that is heard."""


class Raising:
    """A listener that is broken. It must cost nothing."""

    def told(self, signal: Any) -> None:
        """Break."""
        raise RuntimeError("a broken listener")

    def started(self, operation: Any) -> None:
        """Break."""
        raise RuntimeError("a broken listener")

    def settled(self, operation: Any, token: Any) -> None:
        """Break."""
        raise RuntimeError("a broken listener")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a process of the world finds when it starts."""

    process: Process
    queue: Any
    store: Any
    site: Site
    wall: Callable[[], float]
    clock: Callable[[], float]
    told: Callable[[Any], None]


class Staff:
    """A worker: what it consists of, and its life."""

    def __init__(self, plan: Plan, around: Surroundings) -> None:
        self.process = around.process
        self.is_drained = False
        self._queue = around.queue
        listeners: list[Listener] = [Ears(around.told)]
        if plan.faults.listener_raises:
            listeners.append(Raising())
        telemetry = Telemetry(listeners)
        self.guards = Guards(
            telemetry,
            default_policy(_GUARD),
            {**_policies(), "model": model_guard_policy(concurrency=plan.slots, attempts=3)},
            clock=around.clock,
            wall=around.wall,
            random=around.site.chance.random,
        )
        self._runner = _runner(plan, around, telemetry, self.guards)
        desk = _desk(plan, around, telemetry, self._runner)
        self.consumer = Consumer(
            around.queue,
            around.store,
            desk,
            telemetry,
            owner=around.process.name,
            slots=plan.slots,
            heartbeat=HeartbeatOptions(
                lease_seconds=plan.lease_seconds, stuck_seconds=plan.lease_seconds
            ),
            silence=around.process.silence,
            poll_seconds=5.0,
            clock=around.clock,
            suspect_after=min(2, max(1, plan.max_deliveries - 1)),
            beside=around.process.beside,
        )
        self._housekeeper = Housekeeper(
            around.queue,
            around.store,
            telemetry,
            retention_seconds=30 * 86_400.0,
            prune_seconds=3600.0,
            worker=around.process.name,
            clock=around.clock,
            wall=around.wall,
        )

    def __repr__(self) -> str:
        return f"Staff({self.process!r}, {self.consumer!r})"

    def drain(self) -> None:
        """Let it claim no more, finish or hand back what it has, and end."""
        self.is_drained = not self.process.is_cancelled  # else it ends as it does without one
        self.consumer.stop_claiming()

    async def work(self) -> None:
        """Live until drained, cancelled or killed."""
        async with asyncio.TaskGroup() as group:
            beside = group.create_task(self._housekeeper.run())
            await self.consumer.run(drain_seconds=DRAIN_SECONDS)
            beside.cancel()
        await self._queue.close()
        self._runner.close()
        self.guards.close()


def _runner(plan: Plan, around: Surroundings, telemetry: Telemetry, guards: Guards) -> Runner:
    redact = Redactor().text
    room = WaitingRoom(
        around.store.mail, REGISTRY, telemetry, WaitingOptions(redact=redact), wall=around.wall
    )
    rules = HandoffRules(telemetry=telemetry, redact=redact)
    caller = ToolCaller(
        REGISTRY,
        ToolGuards(guards, _GUARD, {}, around.store),
        telemetry,
        CallerOptions(options={"site": around.site}, redact=redact),
        rules,
        room,
        clock=around.clock,
        wall=around.wall,
    )
    return Runner(
        model=SimulatedModel(around.site, guards.get("model")),
        registry=REGISTRY,
        caller=caller,
        waiting=room,
        journal=around.store,
        telemetry=telemetry,
        opening=Opening(
            limits=Limits(),
            deadline_seconds=DEADLINE_SECONDS,
            history_messages_max=10_000,
            steps=StepPolicy(steps=plan.max_steps),
        ),
        rules=rules,
        worker=around.process.name,
        wall=around.wall,
        sessions=SESSIONS,
        redact=redact,
    )


def _desk(plan: Plan, around: Surroundings, telemetry: Telemetry, runner: Runner) -> DeliveryDesk:
    def check(task: Task) -> None:
        REGISTRY.offered(task.tools)

    return DeliveryDesk(
        around.queue,
        around.store,
        runner,
        check,
        telemetry,
        DeliveryOptions(
            owner=around.process.name,
            worker=around.process.name,
            lease_seconds=plan.lease_seconds,
            max_deliveries=plan.max_deliveries,
            backoff_seconds=1.0,
            backoff_seconds_max=30.0,
            redact=Redactor().text,
        ),
        wall=around.wall,
    )
