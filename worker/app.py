"""The composition root: build everything once, start it in order, stop it in reverse."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any, Self, TextIO

import orjson

from worker import assembly
from worker.checks import listening_address
from worker.configuration import Loaded, effective, load, named
from worker.consuming.publishing import Publisher
from worker.core.task import Result, Task
from worker.core.wireformat import task_to_wire
from worker.discovery import load_registry
from worker.foreground import Foreground
from worker.ids import new_task_id
from worker.model.port import Model
from worker.observability import build_observability
from worker.queues import open_queue
from worker.queues.told import TelledQueue
from worker.registry import Registry, Tool
from worker.settings import Settings
from worker.store import open_store
from worker.store.told import TelledStore
from worker.telemetry.signals import ConfigLoaded, ErrorUnhandled, ToolUndeclared, WorkerChanged
from worker.telemetry.tell import Listener
from worker.web.admin import AdminServer, HealthReport, ReadyReport
from worker.web.desk import Desk
from worker.web.stream import Hint, hinted

TELEMETRY_CLOSE_SECONDS = 3.0
COLLECT_AFTER = 10_000  # new objects that are still there; Python's 700 is for small programs


class Worker:
    """One worker. `async with Worker(settings) as worker` starts it and drains it at the end.

    `tools` replaces what the settings name. `model` replaces the endpoint of the settings (tests,
    simulations). `listeners` hear every signal. `api_listener` is a socket that listens already, for
    the API of several processes. Building it raises ConfigError for anything that
    is set up wrong; nothing is opened or listened on before `start`.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        tools: Iterable[Tool] | None = None,
        model: Model | None = None,
        listeners: Iterable[Listener] = (),
        log_stream: TextIO | None = None,
        loaded: Loaded | None = None,
        api_listener: socket.socket | None = None,
    ) -> None:
        self._api_listener = api_listener
        self.loaded = loaded or (load() if settings is None else Loaded(settings, {}))
        self.settings = settings = self.loaded.settings
        self.registry = Registry(tools) if tools is not None else load_registry(settings.tools)
        self.seen = build_observability(
            settings,
            worker_id=assembly.worker_name(),
            stream=log_stream,
            listeners=listeners,
        )
        self.telemetry = self.seen.telemetry
        self.guards = assembly.build_guards(settings, self.registry, self.seen)
        self.model = model or assembly.build_model(settings, self.guards, self.seen)
        self.mcp = assembly.build_servers(settings, self.registry, self.seen)
        self.state = "starting"
        self.admin: AdminServer | None = None
        self.api: Any = None
        self._http = assembly.build_tool_client(settings, self.seen)
        self._working: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self._stack = contextlib.AsyncExitStack()

    def __repr__(self) -> str:
        consumer = getattr(self, "consumer", None)
        return f"Worker({self.state}, {consumer!r})"

    # --- life ------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        """Start."""
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Drain and stop."""
        await self.stop()

    async def start(self, *, claim: bool = True) -> None:
        """Open the queue and the store, listen, and begin to claim.

        `claim=False` opens only, for `ask`. Raises ConfigError, and what is open already is closed
        again.
        """
        try:
            self._tell_beginning()
            await self._open()
            if claim:
                self._listen_admin()
            if self.mcp is not None:
                self._stack.push_async_callback(self.mcp.close)
                await self.mcp.start()
            if claim:
                await self._listen_api()
        except BaseException:
            await self._stack.aclose()
            raise
        if self._stopping.is_set():
            self.consumer.stop_claiming()  # told to stop while it started
        else:
            self._change("running")
        if claim:
            self._working = asyncio.create_task(self._work(), name="worker")

    async def stop(self) -> None:
        """Drain: claim no more, let runs end within the drain time, hand the rest back.

        Cancelled: hand everything back at once.
        """
        self.begin_drain()
        try:
            if self._working is not None:
                await _end_of(self._working)
        finally:
            await self._stack.aclose()

    def begin_drain(self) -> None:
        """Stop claiming; `serve` and `stop` come back once the drain is over. Safe in a handler."""
        if self.state in ("starting", "running"):
            self._change("draining")
        self._stopping.set()
        if hasattr(self, "consumer"):
            self.consumer.stop_claiming()

    async def serve(self) -> None:
        """Work until `begin_drain` is called or something breaks for good; then drain.

        Cancelled: hand everything back at once.
        """
        assert self._working is not None, "start first"
        try:
            with relieved_collector():
                await _end_of(self._working)
        finally:
            await self.stop()

    # --- work from within ------------------------------------------------------------------------

    async def ask(
        self,
        task: Task,
        *,
        history: list[dict[str, Any]] | None = None,
        waiting: Callable[[], object] = lambda: None,
        parked: Callable[[str], Awaitable[object]] | None = None,
    ) -> Result:
        """Run one task here and now, without the queue; everything else is as in a worker.

        `history` are earlier messages of the conversation. `waiting` is called when the session of
        the task is busy; then it waits. `parked` is told the id of the task whenever its run has
        to wait for a person or a job. Raises TaskInvalid for unknown tools, StoreUnavailable.
        Cancelled: the run is released.
        """
        assembly.task_check(self.settings, self.registry)(task)
        foreground = Foreground(
            self.store,
            self.runner,
            self.queue.wake,
            owner=assembly.owner_name(),
            lease_seconds=self.settings.queue.lease_seconds,
            wall=time.time,
        )
        return await foreground.ask(task, history=history, waiting=waiting, parked=parked)

    async def submit(self, task: Task | str) -> str:
        """Put a task into the queue and return its id. Raises TaskInvalid, QueueUnavailable."""
        if isinstance(task, Task):
            body = orjson.dumps(task_to_wire(task))
        else:
            body = orjson.dumps({"input": task})
        submitted = await self.desk.submit(body, content_type="application/json")
        return submitted.task.id

    async def result(self, task_id: str, *, wait_seconds: float = 0.0) -> Result | None:
        """The result of a task, waiting for it for up to `wait_seconds`."""
        ends = time.monotonic() + wait_seconds
        while True:
            async with self._hint(task_id) as news:
                result = await self.store.result(task_id)
                left = ends - time.monotonic()
                if result is not None or left <= 0:
                    return result
                await news(min(left, 0.5))

    # --- parts -----------------------------------------------------------------------------------

    def _tell_beginning(self) -> None:
        self._change("starting")
        shown = {s.name: s.value for s in effective(self.loaded) if s.source != "default"}
        self.telemetry.tell(ConfigLoaded(shown))
        for tool, line in self.registry.undeclared():
            self.telemetry.tell(ToolUndeclared(tool.name, line))

    async def _open(self) -> None:
        settings, stack = self.settings, self._stack
        # Let go of in reverse: telemetry is the last to leave.
        stack.push_async_callback(self.seen.close, seconds=TELEMETRY_CLOSE_SECONDS)
        stack.callback(self._change, "stopped")
        stack.push_async_callback(self._http.aclose)
        stack.push_async_callback(self.model.close)
        stack.callback(self.guards.close)
        with named("QUEUE_URL"):
            queue = await asyncio.to_thread(
                open_queue,
                settings.queue_url,
                **settings.queue_options(),
            )
        self.queue = TelledQueue(queue, self.telemetry)
        stack.push_async_callback(self.queue.close)
        with named("STORE_URL" if settings.store_url else "QUEUE_URL"):
            store = await asyncio.to_thread(open_store, settings.store_url or settings.queue_url)
        self.store = TelledStore(store, self.telemetry)
        stack.push_async_callback(self.store.close)
        runner = assembly.build_runner(
            settings,
            model=self.model,
            registry=self.registry,
            guards=self.guards,
            store=self.store,
            http=self._http,
            seen=self.seen,
        )
        working = assembly.build_working(
            settings,
            runner=runner,
            registry=self.registry,
            guards=self.guards,
            queue=self.queue,
            store=self.store,
            seen=self.seen,
        )
        self.runner, self.consumer, self.fleet = working.runner, working.consumer, working.fleet
        stack.callback(self.runner.close)
        self.housekeeper = working.housekeeper
        self.desk = Desk(
            self.queue,
            self.store,
            now=time.time,
            new_id=new_task_id,
            publish=Publisher(self.queue, self.seen.telemetry).publish,
            known_tools=lambda: self.registry.names,
            check=assembly.task_check(settings, self.registry),
            interrupt=self.consumer.cancel,
            sessions=settings.session_options(),
            redactor=self.seen.redactor,
            obstacle=self.consumer.obstacle,
        )
        self._prepare_metrics()

    def _prepare_metrics(self) -> None:
        assembly.prepare_metrics(
            self.settings,
            registry=self.registry,
            guards=self.guards,
            model=self.model,
            seen=self.seen,
            in_use=lambda: len(self.consumer.held),
        )

    def _listen_admin(self) -> None:
        address = listening_address(self.settings.admin, setting="LOOPWORKER_ADMIN")
        if address is None:
            return
        limit = self.settings.loop_stuck_seconds
        self.admin = AdminServer(
            *address,
            render=self.seen.metrics.render,
            health=lambda: HealthReport(self.seen.lag.age_seconds(), limit),
            ready=self._ready,
        )
        self.admin.start()
        self._stack.callback(self.admin.stop)

    async def _listen_api(self) -> None:
        address = listening_address(self.settings.http, setting="LOOPWORKER_HTTP")
        if address is None:
            return
        # Starlette and uvicorn are half of the start-up time; without the API nobody pays for them.
        from worker.web.api import ApiParts
        from worker.web.server import ApiServer

        token = self.settings.http_token
        parts = ApiParts(
            desk=self.desk,
            queue=self.queue,
            journal=self.store,
            guards=self.guards,
            now=time.time,
            dependencies=lambda: {tool.name: tool.dependency for tool in self.registry},
            token=token.get_secret_value() if token else None,
            hint=self._hint,
            unhandled=lambda error: self.telemetry.tell(ErrorUnhandled("http", error)),
        )
        self.api = ApiServer(*address, parts=parts, listener=self._api_listener)
        await self.api.start()
        self._stack.push_async_callback(self.api.stop)

    @property
    def _hint(self) -> Hint:
        return hinted(self.seen.progress.subscribe)

    def _ready(self) -> ReadyReport:
        if self.state != "running":
            return ReadyReport(False, self.state)
        if self.consumer.last_claim_at is None:
            return ReadyReport(False, "starting", self.consumer.claim_trouble() or "")
        silence = self.consumer.claim_trouble()
        return ReadyReport(silence is None, "running", silence or "")

    async def _work(self) -> None:
        async with asyncio.TaskGroup() as group:
            beside = [
                group.create_task(self.seen.lag.run(), name="lag"),
                group.create_task(self.housekeeper.run(), name="housekeeping"),
            ]
            if self.fleet is not None:
                beside.append(group.create_task(self.fleet.run(), name="fleet"))
            await self.consumer.run(drain_seconds=self.settings.worker.drain_seconds)
            for task in beside:
                task.cancel()

    def _change(self, state: str) -> None:
        self.state = state
        self.telemetry.tell(WorkerChanged(state))


async def _end_of(working: asyncio.Task[None]) -> None:
    """Wait until the work has ended; raises what ended it. Cancelled: it ends at once."""
    try:
        await asyncio.shield(working)
    except asyncio.CancelledError:
        if working.cancelled():
            return
        working.cancel()
        await asyncio.wait([working])
        raise


@contextlib.contextmanager
def relieved_collector() -> Iterator[None]:
    """Keep the garbage collector off what the start has made, and let it look at the rest seldom.

    Modules, schemas and clients live as long as the process, and runs leave hardly a cycle behind;
    looking through all of them, as Python does by default, was a tenth of a busy worker's time.
    For the main life of a process only: it is the whole process that it changes.
    """
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
