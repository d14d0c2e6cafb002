"""Claim leases, keep them alive while the run goes on, settle them, drain."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable

from worker.consuming.beating import Beside, run_beside
from worker.consuming.delivery import DeliveryDesk, Held
from worker.consuming.heartbeat import Heartbeat, HeartbeatOptions
from worker.core.errors import QueueUnavailable
from worker.queues.port import Lease, Queue
from worker.store.port import Journal
from worker.telemetry.signals import ErrorUnhandled, LeaseWasLost, QueueFailed, TasksDrained
from worker.telemetry.tell import Telemetry

_CLAIM_MAX = 64  # leases in one claim: enough to amortise it, few enough to share with others
_QUARANTINE_SECONDS = 1.0  # until a suspect that was turned away may ask again
_SILENT_SECONDS = 30.0  # beyond the longest wait of a claim, until its silence means something
_FAILING_SECONDS = 3.0  # of claims that fail, until that is more than a moment of the network's
_RETRY_SECONDS = (0.2, 0.5, 1.0, 2.0, 5.0)  # between claims while the queue is away


class Consumer:
    """Runs up to `slots` tasks at once. A slot is taken before the claim.

    `silence` tells, from any thread, how long ago the event loop last ticked. `beside` runs the
    heartbeat where a blocked event loop cannot hold it up.

    A task that was in work in `suspect_after` workers that went silent is a suspect: it, or one of
    those that ran beside it, kills them. Suspects run one at a time, so that the guilty one dies
    alone and the others are answered.
    """

    def __init__(
        self,
        queue: Queue,
        journal: Journal,
        desk: DeliveryDesk,
        telemetry: Telemetry,
        *,
        owner: str,
        slots: int,
        heartbeat: HeartbeatOptions,
        silence: Callable[[], float],
        poll_seconds: float,
        clock: Callable[[], float],
        suspect_after: int = 2,
        beside: Beside = run_beside,
    ) -> None:
        self.slots = slots
        self.held: dict[str, Held] = {}
        self.last_claim_at: float | None = None  # of `clock`; the sign of life of receiving
        self._failing_since: float | None = None  # of `clock`; the first of the claims in a row
        self._queue = queue
        self._desk = desk
        self._telemetry = telemetry
        self._owner = owner
        self._lease_seconds = heartbeat.lease_seconds
        self._poll_seconds = poll_seconds
        self._clock = clock
        self._suspect_after = suspect_after
        self._beside = beside
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._claiming: asyncio.Task[None] | None = None  # who waits for a claim now
        self._loop: asyncio.AbstractEventLoop | None = None
        self._draining = asyncio.Event()
        self._dying = True  # until somebody asks for a drain: what ends before that is none
        self._changed = asyncio.Event()
        self._numbers = itertools.count()
        self._drained = {"finished": 0, "released": 0, "cancelled": 0}
        self._heartbeat = Heartbeat(
            queue,
            journal,
            telemetry,
            heartbeat,
            clock=clock,
            silence=silence,
            on_lost=lambda key: self._in_loop(self._on_lost, key),
            on_cancel=lambda run_id: self._in_loop(desk.interrupt, run_id),
        )

    def __repr__(self) -> str:
        state = "draining" if self.draining else "claiming"
        return f"Consumer({self._queue.name}: {state}, {len(self.held)} of {self.slots} slots)"

    @property
    def draining(self) -> bool:
        """Whether claiming has stopped for good."""
        return self._draining.is_set()

    def claim_trouble(self) -> str | None:
        """What is to be said of claims that do not succeed; None while all is well.

        With every slot in use nobody claims, and that is well. May be called from any thread.
        """
        failing_since = self._failing_since
        if failing_since is not None:
            failing = self._clock() - failing_since
            if failing >= _FAILING_SECONDS:
                return f"claims have failed for {failing:.0f} s; the log says why"
        if self.last_claim_at is None:
            return "no claim has succeeded yet"
        seconds = self._clock() - self.last_claim_at
        if len(self.held) >= self.slots or seconds <= _SILENT_SECONDS + self._poll_seconds:
            return None
        return f"no claim has succeeded for {seconds:.0f} s"

    def obstacle(self) -> str | None:
        """What keeps this worker from taking one task more, in words for who waits for that."""
        if self.draining:
            return "this worker drains"
        if len(self.held) >= self.slots:
            return f"all {self.slots} slots of this worker are in use"
        return self.claim_trouble()

    def stop_claiming(self) -> None:
        """Claim no more; what runs goes on. Safe to call twice."""
        self._dying = False
        self._draining.set()
        self._changed.set()
        waiting, self._claiming = self._claiming, None
        if waiting is not None:
            waiting.cancel()  # it may wait for long yet, and then get what it must not have

    def cancel(self, task_id: str) -> None:
        """Let a run of this process see at once that it is cancelled, as the journal has noted."""
        for held in self.held.values():
            if held.run is not None and held.run.id == task_id:
                held.run.cancel_requested = True
                self._desk.interrupt(task_id)

    async def run(self, *, drain_seconds: float) -> None:
        """Work until `stop_claiming`, then drain: finish within `drain_seconds`, else hand back.

        Cancelled: everything in work is handed back at once.
        """
        self._loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as group:
            # If the heartbeat dies of a bug, so does the worker: leases nobody renews are worse.
            beating = group.create_task(
                self._beside(lambda: self._heartbeat.run(self.held), name="heartbeat"),
                name="heartbeat",
            )
            try:
                await self._claim_until_drain()
                await self._drain(drain_seconds)
            finally:
                self._draining.set()
                await self._release_all()
                beating.cancel()

    async def _claim_until_drain(self) -> None:
        failures = 0
        while not self.draining:
            if len(self._tasks) >= self.slots:
                self._changed.clear()
                await self._changed.wait()
                continue
            began = self._clock()
            try:
                leases = await self._claim()
            except QueueUnavailable as error:
                if self._failing_since is None:
                    self._failing_since = began
                self._telemetry.tell(QueueFailed(self._queue.name, "connection", str(error)))
                wait = _RETRY_SECONDS[min(failures, len(_RETRY_SECONDS) - 1)]
                failures += 1
                await self._pause(wait)
                continue
            failures, self._failing_since = 0, None
            self.last_claim_at = self._clock()
            for lease in await self._admitted(self._not_in_hand(leases)):
                if self._draining.is_set():
                    # It came with the last claim: nothing has begun, so it goes back at once.
                    await self._desk.hand_back(Held(lease), "drain")
                    self._drained["released"] += 1
                else:
                    self._start(lease)

    async def _claim(self) -> list[Lease]:
        # The first one does not wait for tasks: it tells that the queue is there, and so that the
        # worker is ready.
        is_first = self.last_claim_at is None
        claim = self._queue.claim(
            owner=self._owner,
            lease_seconds=self._lease_seconds,
            wait_seconds=0.0 if is_first else self._poll_seconds,
            limit=min(self.slots - len(self._tasks), _CLAIM_MAX),
        )
        this = self._claiming = asyncio.current_task()
        assert this is not None
        try:
            return await claim
        except asyncio.CancelledError:
            # By a drain, which ends this wait and nothing else, or by somebody else as well?
            if self._claiming is not None or this.cancelling() > 1:
                raise
            return []
        finally:
            if self._claiming is None:
                this.uncancel()
            self._claiming = None

    def _not_in_hand(self, leases: list[Lease]) -> list[Lease]:
        """Leave out what a broker says twice (Q20): whoever has the lease in hand settles it."""
        known = {(held.lease.id, held.lease.token) for held in self.held.values()}
        new = {(lease.id, lease.token): lease for lease in leases}
        return [lease for key, lease in new.items() if key not in known]

    async def _admitted(self, leases: list[Lease]) -> list[Lease]:
        """Turn away every suspect but one, and that as well while another is at work."""
        suspects = [lease for lease in leases if self._is_suspect(lease)]
        if not suspects:
            return leases
        at_work = any(self._is_suspect(held.lease) for held in self.held.values())
        away = suspects if at_work else suspects[1:]
        # Waited for before the one begins: it may end this process before the next commit.
        await asyncio.gather(
            *(
                self._desk.hand_back(Held(lease), "quarantine", delay_seconds=_QUARANTINE_SECONDS)
                for lease in away
            )
        )
        return [lease for lease in leases if lease not in away]

    def _is_suspect(self, lease: Lease) -> bool:
        return lease.lapses >= self._suspect_after

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._draining.wait()
        except TimeoutError:
            return

    def _start(self, lease: Lease) -> None:
        # Not the task's id: what has lost its lease may be in hand beside its next delivery.
        key = f"{lease.id}#{next(self._numbers)}"
        older = [each for each, held in self.held.items() if held.lease.id == lease.id]
        self.held[key] = Held(lease)
        task = asyncio.create_task(self._work(key, older), name=f"task {lease.id}")
        self._tasks[key] = task
        task.add_done_callback(lambda _: self._done(key))

    async def _work(self, key: str, older: list[str]) -> None:
        held = self.held[key]
        try:
            await self._end_older(older)
            await self._desk.handle(held)
        except asyncio.CancelledError:
            if not held.lost:
                # Without a drain it is the process that dies, and this task may be the reason.
                await self._desk.hand_back(held, "interrupted", counted=self._dying)
                self._drained["cancelled"] += 1
            raise
        except Exception as error:  # the border of consumer work: the others go on
            self._telemetry.tell(ErrorUnhandled("consumer", error))
            await self._desk.hand_back(held, f"bug: {type(error).__name__}", counted=True)

    async def _end_older(self, keys: list[str]) -> None:
        """End what works with a lease that the broker has given anew, before its task is begun.

        The journal would not tell the two apart in time: they are one owner to it, and what an
        older one is just about to do would come after the newer one took it for not done.
        """
        tasks = [task for key in keys if (task := self._tasks.get(key)) is not None]
        for key in keys:
            held = self.held.get(key)
            if held is not None and not held.settled:
                if held.lose():
                    self._telemetry.tell(LeaseWasLost(self._queue.name, held.lease.id))
                self._on_lost(key)
        if tasks:
            await asyncio.wait(tasks)

    def _done(self, key: str) -> None:
        task = self._tasks.get(key)
        if self._draining.is_set() and task is not None and not task.cancelled():
            self._drained["finished"] += 1
        self._tasks.pop(key, None)
        self.held.pop(key, None)
        self._changed.set()

    def _in_loop(self, function: Callable[[str], object], argument: str) -> None:
        """Called by the heartbeat, in its own thread."""
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(function, argument)
        except RuntimeError:
            return  # the loop is closed, and its runs have ended with it

    def _on_lost(self, key: str) -> None:
        task = self._tasks.get(key)
        if task is not None:
            task.cancel()

    async def _drain(self, drain_seconds: float) -> None:
        began = self._clock()
        running = list(self._tasks.values())
        if running:
            await asyncio.wait(running, timeout=drain_seconds)
        await self._release_all()
        self._telemetry.tell(TasksDrained(**self._drained, duration_seconds=self._clock() - began))

    async def _release_all(self) -> None:
        running = list(self._tasks.values())
        for task in running:
            task.cancel()
        if running:
            await asyncio.gather(*running, return_exceptions=True)
