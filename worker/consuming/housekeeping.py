"""What a worker does now and then: measure the queue, forget old runs, answer for the dead."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from worker.consuming.publishing import Publisher
from worker.core.errors import QueueFull, QueueUnavailable, StoreUnavailable
from worker.core.limits import Status
from worker.core.task import Result
from worker.intake import reply_address
from worker.queues.port import DeadLetter, Depth, Queue
from worker.store.port import Store, numbered
from worker.telemetry.signals import (
    ErrorUnhandled,
    QueueFailed,
    QueueMeasured,
    TaskDeadLettered,
)
from worker.telemetry.tell import Telemetry
from worker.waking import wake

MEASURE_SECONDS = 5.0
UNREAD_SECONDS = 60.0  # how often shards are looked at that this worker does not read
UNHEARD_SECONDS = 10.0  # until what was posted for a run is taken for a wake that got lost
_SWEEP_MAX = 200  # dead letters looked at in one sweep
_BESIDE = 20  # letters that may have come after those that are looked for
# For so long after its death the result of a task that a claim gave up may be published once more:
# its last owner may have ended it, and died before anybody heard.
_REPEATED_SECONDS = 86_400.0
_SETTLED = ("done", None)  # what the queue says of a task that it will not deliver again


class Housekeeper:
    """Measures every few seconds, prunes every `prune_seconds`.

    A run is kept for as long as the queue has its task, whatever the retention. What was posted
    for a parked run, by somebody who died before waking it, is found here.

    A task that killed its worker too often is dead-lettered by the claim itself, before any code
    of ours runs; what then gives it the result that every task must have is here. Of those that
    this worker's own claims give up it hears at once; the sweep finds those of workers that died
    before they answered.

    Of a queue that is split, the shards that are read here (`parts`) are measured one by one, under
    their names. The `others` are looked at now and then, and told once one looks as if nobody read
    it: tasks are ready there, and none is in work.
    """

    def __init__(
        self,
        queue: Queue,
        journal: Store,
        telemetry: Telemetry,
        *,
        retention_seconds: float,
        prune_seconds: float,
        worker: str,
        clock: Callable[[], float],
        wall: Callable[[], float],
        parts: Sequence[Queue] = (),
        others: Sequence[Queue] = (),
    ) -> None:
        self.depth = Depth()
        self._parts = parts or (queue,)
        self._others = others
        self._unread: set[str] = set()  # names of shards that were told of
        self._others_seen_at = clock() - UNREAD_SECONDS
        self._queue = queue
        self._journal = journal
        self._mail = journal.mail
        self._telemetry = telemetry
        self._retention_seconds = retention_seconds
        self._prune_seconds = prune_seconds
        self._worker = worker
        self._clock = clock
        self._publisher = Publisher(queue, telemetry)
        self._wall = wall
        self._pruned_at = clock()
        self._dead_seen = -1
        self._dead_told: set[str] = set()
        self._answered: set[tuple[str, float]] = set()  # letters, by id and time of death
        self._told = asyncio.Event()
        queue.on_dead(self.dead_told)

    async def run(self) -> None:
        """Go on until cancelled."""
        while True:
            await self.once()
            await self._pause(min(MEASURE_SECONDS, self._prune_seconds))

    def dead_told(self, task_id: str) -> None:
        """Hear that a claim has given a task up: it is answered for at once."""
        self._dead_told.add(task_id)
        self._told.set()

    async def _pause(self, seconds: float) -> None:
        """Wait, and answer meanwhile for the dead that are told of."""
        ends = asyncio.get_running_loop().time() + seconds
        while await self._hears(until=ends):
            ids, self._dead_told = self._dead_told, set()
            try:
                # The newest first, so they are among these; what is not, the next sweep finds.
                letters = await self._queue.dead(limit=len(ids) + _BESIDE)
                await self._answer_for([letter for letter in letters if letter.id in ids])
            except (QueueUnavailable, StoreUnavailable) as error:
                self._telemetry.tell(QueueFailed(self._queue.name, "connection", str(error)))
            except Exception as error:  # the next sweep answers for them
                self._telemetry.tell(ErrorUnhandled("consumer", error))

    async def _hears(self, *, until: float) -> bool:
        try:
            async with asyncio.timeout_at(until):
                await self._told.wait()
        except TimeoutError:
            return False
        self._told.clear()
        return True

    async def once(self) -> None:
        """Do what is due. An engine that is away is told and tried again the next time."""
        try:
            await self.measure()
            if self.depth.parked:
                await self.wake_the_unheard()
            if self.depth.dead != self._dead_seen and await self.answer_for_the_dead():
                self._dead_seen = self.depth.dead
            if self._clock() - self._pruned_at >= self._prune_seconds:
                self._pruned_at = self._clock()
                await self._journal.prune(
                    older_than_seconds=self._retention_seconds, kept=self._still_queued
                )
                await self._queue.prune(older_than_seconds=self._retention_seconds)
                await self._mail.forget(older_than_seconds=self._retention_seconds)
        except (QueueUnavailable, StoreUnavailable) as error:
            self._telemetry.tell(QueueFailed(self._queue.name, "connection", str(error)))
        except Exception as error:  # the border of housekeeping: tasks are worked at without it
            self._telemetry.tell(ErrorUnhandled("consumer", error))

    async def measure(self) -> Depth:
        """Read the depth of the queue and tell it."""
        total = Depth()
        for part in self._parts:
            if (depth := await self._depth(part)) is not None:
                self._tell(part, depth)
                total += depth
        self.depth = total
        if self._others and self._clock() - self._others_seen_at >= UNREAD_SECONDS:
            self._others_seen_at = self._clock()
            await self._look_for_unread()
        return total

    async def _depth(self, part: Queue) -> Depth | None:
        try:
            return await part.depth()
        except QueueUnavailable as error:
            if len(self._parts) == 1:
                raise
            # The other shards may have other servers, and are worked at.
            self._telemetry.tell(QueueFailed(part.name, "connection", str(error)))
            return None

    async def _look_for_unread(self) -> None:
        for other in self._others:
            depth = await self._depth(other)
            if depth is None:
                continue
            if other.name in self._unread or (depth.ready and not depth.leased):
                self._unread.add(other.name)  # told from now on, so that its end is told as well
                self._tell(other, depth)

    def _tell(self, queue: Queue, depth: Depth) -> None:
        self._telemetry.tell(
            QueueMeasured(
                queue.name,
                depth.ready,
                depth.delayed,
                depth.leased,
                depth.parked,
                depth.dead,
                depth.oldest_ready_seconds,
            )
        )

    async def wake_the_unheard(self) -> None:
        """Wake the runs that could go on and that nobody has told."""
        for run_id in await self._mail.unheard(older_than_seconds=UNHEARD_SECONDS):
            await wake(run_id, self._queue, self._journal)

    async def _still_queued(self, ids: Sequence[str]) -> set[str]:
        # Ready again after a crash, or dead and to be redriven: without its journal such a task
        # would do everything a second time.
        return {run_id for run_id in ids if await self._queue.state(run_id) not in _SETTLED}

    async def answer_for_the_dead(self) -> bool:
        """Give every dead letter that has none a result; False when some have to wait."""
        return await self._answer_for(await self._queue.dead(limit=_SWEEP_MAX))

    async def _answer_for(self, letters: Sequence[DeadLetter]) -> bool:
        all_done = True
        for letter in letters:
            try:
                await self._answer_for_one(letter)
            except QueueFull:
                all_done = False  # the caller's own queue takes no more: the next sweep tries again
            except (QueueUnavailable, StoreUnavailable):
                raise
            except Exception as error:  # one letter that cannot be answered for: the others can
                self._telemetry.tell(ErrorUnhandled("consumer", error))
        return all_done

    async def _answer_for_one(self, letter: DeadLetter) -> None:
        known, now = (letter.id, letter.died_at), self._wall()
        if known in self._answered:
            return
        result = await self._journal.result(letter.id)
        if result is None:
            result = await self._give(letter, now=now)
        elif not letter.is_given_up or now - letter.died_at > _REPEATED_SECONDS:
            return  # who dead-lettered it has published the result before
        # Stored before it is published: its last owner may be ending it at this very moment, and
        # only one of the two can be what everybody hears. A crash in between is made good above.
        await self._publisher.publish(result, reply_address(letter.body, queue=self._queue.name))
        if len(self._answered) >= _SWEEP_MAX:
            self._answered.clear()
        self._answered.add(known)

    async def _give(self, letter: DeadLetter, *, now: float) -> Result:
        """Store the result of a task that has none; returns what is stored."""
        result = Result(
            task_id=letter.id,
            status=Status.ERROR,
            error=f"dead-lettered: {letter.reason}",
            started_at=letter.enqueued_at,
            ended_at=now,
            worker=self._worker,
        )
        result = await numbered(self._journal, result)
        if await self._journal.put_result(result):
            signal = TaskDeadLettered(self._queue.name, letter.id, "deliveries", letter.reason)
            self._telemetry.tell(signal)
            return result
        return await self._journal.result(letter.id) or result
