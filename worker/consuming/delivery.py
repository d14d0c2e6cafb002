"""One delivery of a task: from the lease in hand to what the queue is told."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

from worker.consuming.outlasting import let_go
from worker.consuming.publishing import Publisher
from worker.core.errors import (
    IllegalEvent,
    LeaseLost,
    QueueFull,
    QueueUnavailable,
    RunBusy,
    SessionBusy,
    StoreUnavailable,
    TaskInvalid,
    UnknownEvent,
)
from worker.core.limits import Status
from worker.core.settlement import (
    TRANSIENT,
    Deliveries,
    Settlement,
    settle_ended,
    settle_handed_back,
    settle_outage,
    settle_session_busy,
)
from worker.core.task import Result, Task
from worker.intake import check_reply_to, read_task, reply_address
from worker.queues.port import AGEING_SECONDS, Lease, Queue
from worker.running.runner import RunEnd, Runner
from worker.store.port import BEYOND_ALL_EVENTS, Journal, Run, SessionClaim, numbered
from worker.telemetry.signals import (
    ErrorUnhandled,
    LeaseWasLost,
    TaskDeadLettered,
    TaskProcessing,
    TaskReceived,
    TaskRefused,
    TaskSettled,
)
from worker.telemetry.tell import Telemetry
from worker.waking import wake_next

_NEWER_SECONDS = 10.0  # until a run that only a newer worker can read is looked at again


@dataclass(frozen=True, slots=True)
class DeliveryOptions:
    """What is the same for every delivery. `worker` is the name that results carry, `redact` takes
    secrets out of what is said of a task that cannot be read.
    """

    owner: str
    worker: str
    lease_seconds: float
    max_deliveries: int
    backoff_seconds: float
    backoff_seconds_max: float
    redact: Callable[[str], str] = str


_LOSING = threading.Lock()


@dataclass(slots=True)
class Held:
    """What this worker holds for one task: the lease, and the run once it is open."""

    lease: Lease
    run: Run | None = None
    lost: bool = False  # somebody else has it: found by the heartbeat, or by a write that failed
    settled: bool = False  # the queue is being told: nothing can be lost any more

    def lose(self) -> bool:
        """Note that somebody else has it. True for the first who finds it, and who tells it."""
        with _LOSING:  # the heartbeat has a thread of its own
            is_first, self.lost = not self.lost, True
        return is_first


class DeliveryDesk:
    """Handles deliveries, any number at once. Result first, broker last."""

    def __init__(
        self,
        queue: Queue,
        journal: Journal,
        runner: Runner,
        known_tools: Callable[[Task], object],
        telemetry: Telemetry,
        options: DeliveryOptions,
        *,
        wall: Callable[[], float],
    ) -> None:
        self._queue = queue
        self._journal = journal
        self._runner = runner
        self._known_tools = known_tools
        self._telemetry = telemetry
        self._options = options
        self._wall = wall
        self._publisher = Publisher(queue, telemetry)

    async def handle(self, held: Held) -> str:
        """Take one task as far as it goes and settle it; returns the settlement.

        Never raises but for cancellation: then the run and the lease are still held, and
        `hand_back` gives them up.
        """
        lease = held.lease
        processing = TaskProcessing(
            queue=self._queue.name,
            system=self._queue.system,
            task_id=lease.id,
            delivery=lease.deliveries,
            waited_seconds=max(0.0, self._wall() - lease.enqueued_at),
            body_bytes=len(lease.body),
            redelivered=lease.handings > 1,
        )
        try:
            task = self._read(lease, processing)
        except TaskInvalid as problem:
            with self._telemetry.watch(processing):
                await self._refuse(held, problem, processing)
            return processing.settlement or "lost"
        with self._telemetry.watch(processing):
            self._telemetry.tell(
                TaskReceived(self._queue.name, task.id, lease.deliveries, processing.redelivered)
            )
            settlement, result = await self._work(held, task, processing)
            await self._settle(held, task.reply_to, settlement, result, processing)
            if held.run is not None:
                await wake_next(held.run, self._queue.wake)
        return processing.settlement or "lost"

    def interrupt(self, run_id: str) -> None:
        """End the waiting for the model of a run that is cancelled."""
        self._runner.interrupt(run_id)

    async def hand_back(
        self, held: Held, reason: str, *, delay_seconds: float = 0.0, counted: bool = False
    ) -> None:
        """Give a task up unfinished. Only what is our own doing (a drain) is not counted.

        What is counted comes back after the usual back-off: it may be the task's own fault.
        """
        delay = self._options.backoff_seconds if counted else delay_seconds
        outcome = "retry" if counted else "release"
        try:
            if held.run is not None:
                await self._journal.release(held.run, hold_seconds=delay)
            held.settled = True
            await self._queue.nack(held.lease, delay_seconds=delay, counted=counted, reason=reason)
            settled = TaskSettled(self._queue.name, held.lease.id, outcome, delay_seconds=delay)
            self._telemetry.tell(settled)
        except (LeaseLost, StoreUnavailable, QueueUnavailable):
            # Then the lease runs out by itself, and the next owner fences this one.
            self._tell_lost(held, held.lease.id)

    def _tell_lost(self, held: Held, task_id: str) -> None:
        if held.lose():
            self._telemetry.tell(LeaseWasLost(self._queue.name, task_id))

    def _read(self, lease: Lease, processing: TaskProcessing) -> Task:
        task = read_task(lease.body, default_id=lease.id, queued=True)
        processing.task_id = task.id
        processing.session_id = task.session_id
        processing.traceparent = task.traceparent
        processing.tracestate = task.tracestate
        check_reply_to(task, queue=self._queue.name)
        self._known_tools(task)
        return task

    async def _work(
        self, held: Held, task: Task, processing: TaskProcessing
    ) -> tuple[Settlement | None, Result | None]:
        if task.not_before is not None and task.not_before > self._wall():
            delay = task.not_before - self._wall()
            return settle_handed_back("not_before", delay_seconds=delay), None
        try:
            end = await self._run(held, task)
        except SessionBusy as busy:
            settlement, result = await self._wait_for_session(held.lease, task, busy)
            processing.status = None if result is None else str(result.status)
            return settlement, result
        except RunBusy as busy:
            return settle_handed_back("busy", delay_seconds=busy.retry_after_seconds), None
        except LeaseLost:
            return None, None
        except (StoreUnavailable, QueueUnavailable) as error:
            processing.error_type, processing.error = "connection", str(error)
            return await self._after_outage(held), None
        except UnknownEvent as error:
            # A deploy is under way, and a newer worker began this run: it is for one of those.
            processing.error_type, processing.error = "other", str(error)
            return settle_handed_back(str(error), delay_seconds=_NEWER_SECONDS), None
        except IllegalEvent as error:
            processing.error_type, processing.error = "internal", str(error)
            return await self._give_up(task, f"corrupt journal: {error}")
        except Exception as error:  # the border of consumer work: a bug costs one delivery
            processing.error_type, processing.error = "internal", type(error).__name__
            self._telemetry.tell(ErrorUnhandled("loop", error))
            return await self._after_bug(held, task, error)
        processing.status = None if end.result is None else str(end.result.status)
        return end.settlement, end.result

    async def _run(self, held: Held, task: Task) -> RunEnd:
        opened = await self._journal.open(
            task.id,
            owner=self._options.owner,
            lease_seconds=self._options.lease_seconds,
            session=session_of(task, held.lease),
        )
        if opened.result is not None:
            # It ended before, and the broker was not told: say it again, with the same result id.
            reason = f"{opened.result.status}: {opened.result.error or ''}"
            ended = settle_ended(opened.result.status, reason, self._deliveries(held, last=True))
            return RunEnd(ended, opened.result)
        held.run = opened.run
        return await self._runner.run(task, opened, self._deliveries(held))

    async def _wait_for_session(
        self, lease: Lease, task: Task, busy: SessionBusy
    ) -> tuple[Settlement | None, Result | None]:
        settlement = settle_session_busy(busy.ahead, lease.handings)
        if task.deadline is None:
            return settlement, None
        left = task.deadline - self._wall()
        if left > 0:
            return replace(settlement, delay_seconds=min(settlement.delay_seconds, left)), None
        try:
            if await self._journal.view(task.id, after_seq=BEYOND_ALL_EVENTS) is not None:
                return settlement, None  # it has begun, and has more to tell than that it is late
            text = "the deadline of the task has passed while its session was busy"
            result = await self._failed(task.id, Status.DEADLINE, text)
            result = replace(result, session_id=task.session_id)
            await self._journal.put_result(result)
        except StoreUnavailable:
            return None, None
        return Settlement("ack", reason=text), result

    def _deliveries(self, held: Held, *, last: bool = False) -> Deliveries:
        options = self._options
        return Deliveries(
            options.max_deliveries if last else held.lease.deliveries,
            options.max_deliveries,
            options.backoff_seconds,
            options.backoff_seconds_max,
        )

    async def _after_bug(
        self, held: Held, task: Task, error: Exception
    ) -> tuple[Settlement | None, Result | None]:
        text = f"internal error: {type(error).__name__}"
        settlement = settle_ended(Status.ERROR, text, self._deliveries(held))
        if settlement.action == "dead_letter":
            if held.run is not None:
                held.run.closing = True  # the result ends it
            return await self._give_up(task, settlement.reason)
        try:
            if held.run is not None:
                hold = settlement.delay_seconds
                await self._journal.release(held.run, hold_seconds=hold)
        except (LeaseLost, StoreUnavailable):
            return None, None
        return settlement, None

    async def _after_outage(self, held: Held) -> Settlement:
        """Give a task back whose journal was out of reach, which is no fault of the task's."""
        if held.run is not None and await let_go(
            self._journal, held.run, lost=lambda: held.lost, seconds=self._options.lease_seconds
        ):
            return settle_handed_back("the store was away")
        return settle_outage(held.lease.handings)

    async def _give_up(self, task: Task, reason: str) -> tuple[Settlement | None, Result | None]:
        try:
            result = await self._failed(task.id, Status.ERROR, reason)
            await self._journal.put_result(result)
        except StoreUnavailable:
            return None, None
        return Settlement("dead_letter", reason=reason), result

    async def _refuse(self, held: Held, problem: TaskInvalid, processing: TaskProcessing) -> None:
        task_id, name = processing.task_id, self._queue.name
        text = self._options.redact(str(problem))
        self._telemetry.tell(TaskRefused(name, task_id, problem.kind, text))
        try:
            result = await self._failed(task_id, Status.REJECTED, text)
            await self._journal.put_result(result)
        except StoreUnavailable as error:
            processing.error_type, processing.error = "connection", str(error)
            return
        processing.status = str(Status.REJECTED)
        settlement = Settlement("dead_letter", reason=f"rejected: {text}")
        # Whoever waits for the answer has to hear that there will be none.
        reply_to = reply_address(held.lease.body, queue=name)
        await self._settle(held, reply_to, settlement, result, processing)

    async def _failed(self, task_id: str, status: Status, error: str) -> Result:
        now = self._wall()
        result = Result(
            task_id=task_id,
            status=status,
            error=error,
            started_at=now,
            ended_at=now,
            worker=self._options.worker,
            trace_id=self._telemetry.trace_id(),
        )
        return await numbered(self._journal, result)

    async def _settle(
        self,
        held: Held,
        reply_to: str | None,
        settlement: Settlement | None,
        result: Result | None,
        processing: TaskProcessing,
    ) -> None:
        name, task_id, lease = self._queue.name, processing.task_id, held.lease
        if settlement is None or held.lost:
            self._tell_lost(held, task_id)
            processing.settlement = "lost"
            return
        try:
            if result is not None:
                await self._publisher.publish(result, reply_to)
            held.settled = True
            match settlement.action:
                case "ack":
                    await self._queue.ack(lease)
                case "dead_letter":
                    await self._queue.dead_letter(lease, reason=settlement.reason)
                    cause = _cause(result)
                    self._telemetry.tell(TaskDeadLettered(name, task_id, cause, settlement.reason))
                case _:
                    await self._queue.nack(
                        lease,
                        delay_seconds=settlement.delay_seconds,
                        counted=settlement.counted,
                        reason=settlement.reason,
                    )
        except QueueFull:
            # The caller's own queue takes no more. The result is stored, so the task waits until
            # it can be handed over; that it takes long is no fault of the task.
            held.run = None  # it has ended
            wait = self._options.backoff_seconds
            await self.hand_back(held, "the reply queue is full", delay_seconds=wait)
            processing.settlement = "release"
            return
        except (LeaseLost, QueueUnavailable):
            # Harmless: the ending is in the journal, and a redelivery finds it there.
            self._tell_lost(held, task_id)
            processing.settlement = "lost"
            return
        processing.settlement = settlement.action
        self._telemetry.tell(
            TaskSettled(
                name, task_id, settlement.action, processing.status, settlement.delay_seconds
            )
        )


def session_of(task: Task, lease: Lease) -> SessionClaim | None:
    """The session of a task, if it has one; its place in the line is its place in the queue."""
    if task.session_id is None:
        return None
    place = lease.enqueued_at - AGEING_SECONDS * lease.priority
    return SessionClaim(task.session_id, task.tenant or "", place)


def _cause(result: Result | None) -> str:
    if result is None:
        return "corrupt"
    if result.status == Status.REJECTED:
        return "rejected"
    return "deliveries" if result.status in TRANSIENT else "permanent"
