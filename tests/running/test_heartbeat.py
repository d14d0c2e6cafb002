"""Leases are kept while the event loop is blocked, let go of when it is stuck, and lost for a reason."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from worker import tool
from worker.consuming.beating import run_beside
from worker.consuming.delivery import Held
from worker.consuming.heartbeat import Heartbeat, HeartbeatOptions
from worker.core.task import Result
from worker.model.scripted import answer, calls
from worker.queues.memory import MemoryBroker, MemoryQueue
from worker.queues.port import Ticket
from worker.store.memory import MemoryBase, MemoryStore
from worker.telemetry.signals import LeaseRenewed, LeaseWasLost, LoopStuck, WriteFenced
from worker.telemetry.tell import Telemetry
from worker.testing.harness import FakeClock

LEASE = 30.0


class Watch:
    """A heartbeat over memory engines, with a clock and a silence that the test moves."""

    def __init__(self):
        self.clock, self.silence, self.told = FakeClock(), 0.0, []
        self.broker = MemoryBroker(clock=self.clock)
        self.base = MemoryBase(clock=self.clock)
        self.queue, self.store = MemoryQueue(self.broker), MemoryStore(self.base)
        self.lost, self.cancelled, self.held = [], [], {}
        self.beating = Heartbeat(
            self.queue,
            self.store,
            Telemetry([self]),
            HeartbeatOptions(lease_seconds=LEASE, stuck_seconds=20.0),
            clock=self.clock,
            silence=lambda: self.silence,
            on_lost=self.lost.append,
            on_cancel=self.cancelled.append,
        )

    def told_of(self, kind):
        """What was told of one kind."""
        return [signal for signal in self.told if isinstance(signal, kind)]

    async def hold(self, name):
        """Claim a task and open its run, as a consumer does."""
        await self.queue.put(Ticket(id=name, body=b"{}"))
        (lease,) = await self.queue.claim(owner="me", lease_seconds=LEASE, wait_seconds=0)
        run = (await self.store.open(name, owner="me", lease_seconds=LEASE)).run
        self.held[name] = Held(lease, run)
        return self.held[name]


@pytest.fixture
def watch(monkeypatch):
    """A heartbeat, and a telemetry that keeps what it is told."""
    watch = Watch()
    monkeypatch.setattr(Telemetry, "tell", lambda _, signal: watch.told.append(signal))
    return watch


async def test_beats_keep_what_is_held(watch):
    """Three leases later, queue and journal still say that it is ours."""
    await watch.hold("a")
    for _ in range(9):
        watch.clock.now += LEASE / 3
        await watch.beating.beat(watch.held)

    assert (watch.lost, [one.outcome for one in watch.told_of(LeaseRenewed)]) == (
        [],
        ["success"] * 9,
    )
    assert await watch.queue.claim(owner="w2", lease_seconds=1, wait_seconds=0) == []


async def test_what_was_taken_over_is_lost_once(watch):
    """Both the run and the lease are gone: it is told once, and its work is ended."""
    held = await watch.hold("a")
    watch.clock.now += LEASE + 1
    await watch.queue.claim(owner="w2", lease_seconds=LEASE, wait_seconds=0)
    await watch.store.open("a", owner="w2", lease_seconds=LEASE)
    await watch.beating.beat(watch.held)
    await watch.beating.beat(watch.held)

    assert (held.lost, watch.lost, len(watch.told_of(LeaseWasLost))) == (True, ["a"], 1)


async def test_what_a_write_found_lost_is_not_told_again(watch):
    """Who wrote in vain has told it; the beat that finds the same says nothing."""
    held = await watch.hold("a")
    watch.clock.now += LEASE + 1
    await watch.store.open("a", owner="w2", lease_seconds=LEASE)
    first = held.lose()
    await watch.beating.beat(watch.held)

    assert (first, held.lose(), watch.told_of(LeaseWasLost)) == (True, False, [])


async def test_a_run_that_ends_while_it_is_renewed_is_not_lost(watch):
    """The renewal crosses its last write, or the settlement: nothing happened to anybody."""
    ended, settled = await watch.hold("ended"), await watch.hold("settled")
    await watch.store.finish(ended.run, [], Result("ended", "completed"))
    await watch.store.finish(settled.run, [], Result("settled", "completed"))
    settled.settled = True
    await watch.queue.ack(settled.lease)
    await watch.beating.beat(watch.held)

    assert (ended.lost, settled.lost, watch.lost, watch.told_of(LeaseWasLost)) == (
        *(False, False),
        *([], []),
    )
    await watch.queue.ack(ended.lease)


async def test_an_outage_gives_up_before_the_lease_runs_out(watch):
    """Not at the first failure, and not after somebody else may have the task."""
    await watch.hold("a")
    await watch.beating.beat(watch.held)
    watch.broker.outage = True
    for _ in range(2):
        watch.clock.now += LEASE / 3
        await watch.beating.beat(watch.held)
    before = list(watch.lost)
    watch.clock.now += LEASE / 6 + 0.001
    await watch.beating.beat(watch.held)

    assert (before, watch.lost) == ([], ["a"])
    assert [one.outcome for one in watch.told_of(LeaseRenewed)] == ["success", *["error"] * 3]


async def test_a_silent_loop_is_stuck_beyond_its_limit_and_told_once(watch):
    """Up to the limit it is busy; what the whole process missed is not its silence."""
    found = []
    for watch.silence, missed in ((20.0, 0), (20.1, 0), (25.0, 0), (0.1, 0), (500.0, 490.0)):
        found.append(watch.beating.is_stuck(missed_seconds=missed))
    watch.silence = 30.0
    found.append(watch.beating.is_stuck())

    assert found == [False, True, True, False, False, True]
    assert [told.seconds for told in watch.told_of(LoopStuck)] == [20.1, 30.0]


async def test_a_cancel_noted_elsewhere_is_heard_between_beats(watch):
    """Only of those that have not heard it; an outage is waited out."""
    held, _ = await watch.hold("a"), await watch.hold("b")
    await watch.beating.look(watch.held)
    await watch.store.request_cancel("a")
    watch.base.outage = True
    await watch.beating.look(watch.held)
    early = list(watch.cancelled)
    watch.base.outage = False
    await watch.beating.look(watch.held)
    await watch.beating.look(watch.held)

    assert (early, watch.cancelled) == ([], ["a"])
    assert (held.run.cancel_requested, held.run.next_seq) == (True, 0)


async def test_the_thread_ends_with_its_caller():
    """Cancelled, it cancels what it runs, and is gone on return."""
    begun, ended, ours = threading.Event(), [], threading.get_ident()

    async def beat():
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(threading.get_ident())

    running = asyncio.create_task(run_beside(beat, name="beating-test"))
    await asyncio.to_thread(begun.wait, 5)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert len(ended) == 1 and ended[0] != ours
    assert "beating-test" not in [thread.name for thread in threading.enumerate()]


async def test_the_thread_says_what_it_died_of():
    """A bug in the beating is the caller's to raise."""

    async def beat():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await run_beside(beat, name="beating-test")


async def test_a_blocked_loop_goes_on_renewing(start, ask):
    """A tool blocks the loop for two leases; renewals go on meanwhile, and it is done once."""
    during, ears = [], None

    @tool(effect="write", attempts=1)
    async def block() -> str:
        """Keep the loop from everybody."""
        before = len(ears.of(LeaseRenewed))
        ends = time.monotonic() + 20
        while len(ears.of(LeaseRenewed)) < before + 7 and time.monotonic() < ends:
            time.sleep(0.01)  # noqa: ASYNC251  (the mistake that is tested)
        during.append(len(ears.of(LeaseRenewed)) - before)
        return "free again"

    queue = {"lease_seconds": 1.0, "poll_seconds": 0.05}  # renewed three times in a lease
    script = calls(("block", {})), answer("done")
    async with start(
        *script, tools=[block], queue=queue, worker={"loop_stuck_seconds": 30.0}
    ) as worker:
        ears = worker.ears
        result = await ask(worker, "q")

    assert (result.status, [call.source for call in result.tool_calls]) == ("completed", ["live"])
    assert len(during) == 1 and during[0] >= 7
    assert ears.of(LeaseWasLost) == ears.of(WriteFenced) == ears.of(LoopStuck) == []


async def test_a_stuck_loop_lets_go(start, ask):
    """Beyond its limit nothing is renewed, and the operators hear of it while it is stuck."""
    seen, ears = [], None

    @tool(effect="read", attempts=1, timeout_seconds=5)
    async def block() -> str:
        """Keep the loop from everybody."""
        ends = time.monotonic() + 5
        while not ears.of(LoopStuck) and time.monotonic() < ends:
            time.sleep(0.01)  # noqa: ASYNC251  (the mistake that is tested)
        before = len(ears.of(LeaseRenewed))
        time.sleep(0.2)  # noqa: ASYNC251
        seen.append((len(ears.of(LoopStuck)), len(ears.of(LeaseRenewed)) - before))
        return "free again"

    queue = {"lease_seconds": 0.5, "poll_seconds": 0.05, "backoff_seconds": 0.0}
    script, stuck = (calls(("block", {})), answer("done")), {"loop_stuck_seconds": 0.3}
    async with start(*script, tools=[block], queue=queue, worker=stuck) as worker:
        ears = worker.ears
        result = await ask(worker, "q")

    assert (result.status, seen) == ("completed", [(1, 0)])
