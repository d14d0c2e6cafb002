"""Each promise is taken out of the worker once: a checker has to notice, within a few worlds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.simulation.checks import CHECKS, wrong_with
from tests.simulation.plan import WORLDS, Faults, plan_of
from tests.simulation.world import run_world
from worker.consuming.delivery import DeliveryDesk
from worker.consuming.heartbeat import Heartbeat
from worker.core.effects import CallModel
from worker.core.events import ToolReturned, ToolStarted
from worker.core.loop import Loop
from worker.guard.admission import Admission
from worker.guard.verdict import Verdict
from worker.queues.memory import MemoryQueue
from worker.running.recorder import Recorder
from worker.running.runner import Runner
from worker.store.memory import MemoryStore
from worker.store.memory_sessions import SessionShelf
from worker.telemetry.redact import Redactor
from worker.telemetry.tell import Telemetry

Patch = pytest.MonkeyPatch


def around(patch: Patch, owner: Any, name: str, wrapper: Callable[..., Any]) -> None:
    """Replace a method by `wrapper(original, self, …)`."""
    original = getattr(owner, name)
    patch.setattr(owner, name, lambda *args, **kwargs: wrapper(original, *args, **kwargs))


def the_fence_is_removed(patch: Patch) -> None:
    """An old owner may write."""
    patch.setattr(MemoryStore, "_owned", lambda self, run: self.base.records[run.id])


def nothing_is_written_ahead(patch: Patch) -> None:
    """The intent of an effect reaches the journal with its result."""

    async def record(original: Any, self: Recorder, *events: Any, **rest: Any) -> None:
        if len(events) == 1 and isinstance(events[0], ToolStarted):
            self.defer(events[0])
        else:
            await original(self, *events, **rest)

    around(patch, Recorder, "record", record)


def the_ack_comes_before_the_result(patch: Patch) -> None:
    """A task leaves the queue as soon as it is taken up."""

    async def work(original: Any, self: DeliveryDesk, held: Any, *rest: Any) -> Any:
        await self._queue.ack(held.lease)
        return await original(self, held, *rest)

    around(patch, DeliveryDesk, "_work", work)


def the_trial_is_leaked(patch: Patch) -> None:
    """A trial that says nothing never gives its place back."""

    def settle(original: Any, self: Admission, permit: Any, ruling: Any, slow: bool) -> Any:
        verdict = original(self, permit, ruling, slow)
        if permit.is_trial and verdict is Verdict.NEUTRAL:
            self._trial = permit
        return verdict

    around(patch, Admission, "_settle", settle)


def leases_are_not_renewed(patch: Patch) -> None:
    """The heartbeat does nothing."""

    async def beat(self: Heartbeat, held: Any, **rest: Any) -> None:
        return None

    patch.setattr(Heartbeat, "beat", beat)


def a_result_is_no_end(patch: Patch) -> None:
    """Who opens a run that has ended runs it again."""

    async def opening(original: Any, self: MemoryStore, run_id: str, **rest: Any) -> Any:
        record = self.base.records.get(run_id)
        if record is not None and record.state == "finished":
            record.state = "released"
        return await original(self, run_id, **rest)

    around(patch, MemoryStore, "open", opening)


def results_are_forgotten(patch: Patch) -> None:
    """Who takes a run over does not learn what its calls have come to."""

    async def opening(original: Any, self: MemoryStore, run_id: str, **rest: Any) -> Any:
        opened = await original(self, run_id, **rest)
        kept, is_last = list(opened.events), True
        while kept and is_last:
            is_last = isinstance(kept[-1], ToolReturned)
            kept = kept[:-1] if is_last else kept
        return replace(opened, events=tuple(kept))

    around(patch, MemoryStore, "open", opening)


def an_answer_is_left_out(patch: Patch) -> None:
    """The first result of a conversation is not sent."""

    def following(original: Any, self: Loop, now: float) -> Any:
        effect = original(self, now)
        if isinstance(effect, CallModel):
            roles = [message.role for message in effect.messages]
            if "tool" in roles:
                at = roles.index("tool")
                left = [*effect.messages[:at], *effect.messages[at + 1 :]]
                effect = replace(effect, messages=left)
        return effect

    around(patch, Loop, "next", following)


def nothing_is_degraded(patch: Patch) -> None:
    """What stood in is not in the manifest."""
    patch.setattr("worker.core.ending.manifest", lambda rows: ())


def secrets_are_told(patch: Patch) -> None:
    """Nothing is redacted."""
    patch.setattr(Redactor, "text", lambda self, text, **rest: text)


def a_drain_is_counted(patch: Patch) -> None:
    """Who is interrupted by a drain pays for it with a delivery."""

    async def hand_back(
        original: Any, self: Any, held: Any, reason: str, *, counted: bool = False, **rest: Any
    ) -> None:
        await original(self, held, reason, counted=counted or reason == "interrupted", **rest)

    around(patch, DeliveryDesk, "hand_back", hand_back)


def sessions_are_shared(patch: Patch) -> None:
    """Who wants a session gets it, whoever has it."""

    def take(original: Any, self: SessionShelf, claim: Any, run_id: str, now: float) -> Any:
        self._has = lambda *_: False  # type: ignore[method-assign,assignment]
        self._fence = lambda *_: None  # type: ignore[method-assign,assignment]
        return original(self, claim, run_id, now)

    around(patch, SessionShelf, "take", take)


def steps_have_no_end(patch: Patch) -> None:
    """The run goes on when its steps are used up."""
    patch.setattr(Loop, "max_steps", property(lambda self: 1_000))


def a_reply_holds_the_conversation(patch: Patch) -> None:
    """Each event has everything in it that was before."""

    async def reply(original: Any, self: Runner, request: Any, recorder: Any) -> Any:
        replied = await original(self, request, recorder)
        before = [message.body for message in request.messages]
        return replace(replied, message={**replied.message, "before": before})

    around(patch, Runner, "_reply", reply)


def a_listener_may_raise(patch: Patch) -> None:
    """What is wrong with a listener is a matter of those who tell it something."""

    def tell(self: Telemetry, signal: Any) -> None:
        for listener in self.hearing(type(signal)):
            listener.told(signal)

    patch.setattr(Telemetry, "tell", tell)


def a_busy_task_stays_away(patch: Patch) -> None:
    """What somebody else is at work on is looked at again in thirty years."""

    async def nack(original: Any, self: MemoryQueue, lease: Any, **how: Any) -> None:
        if how["reason"] == "busy":
            how["delay_seconds"] = 1e9
        await original(self, lease, **how)

    around(patch, MemoryQueue, "nack", nack)


# Breakers open, and those who try them lose their leases; tasks are at work when a drain comes.
HARSH = Faults(tool_fails=0.9, tool_hangs=0.05, eviction=0.5)
DRAINED = Faults(tool_hangs=0.2, drain=8.0)
CALM, OUTSIDE, NETWORK, CRASHES, PAUSES, EVICTIONS, EVERYTHING = 0, 1, 2, 3, 4, 6, 8
MUTANTS: list[tuple[Callable[[Patch], None], str, int | Faults]] = [
    (the_fence_is_removed, "fenced", PAUSES),
    (nothing_is_written_ahead, "never_again", CALM),
    (the_ack_comes_before_the_result, "nothing_lost", CRASHES),
    (the_trial_is_leaked, "neutral", HARSH),
    (leases_are_not_renewed, "neutral", OUTSIDE),
    (a_result_is_no_end, "nothing_lost", NETWORK),
    (results_are_forgotten, "never_again", CRASHES),
    (an_answer_is_left_out, "paired", CALM),
    (nothing_is_degraded, "honest", OUTSIDE),
    (secrets_are_told, "no_secrets", OUTSIDE),
    (a_drain_is_counted, "neutral", DRAINED),
    (sessions_are_shared, "one_after_another", CRASHES),
    (steps_have_no_end, "bounded", CALM),
    (a_reply_holds_the_conversation, "linear", CALM),
    (a_listener_may_raise, "no_bugs", OUTSIDE),
    (a_busy_task_stays_away, "queue_empty", EVICTIONS),
]
TRIES = 16  # worlds until it is caught: most are in the first or second, whatever luck has it


def test_every_checker_is_tested() -> None:
    """There is a broken promise for each of them."""
    assert {promise for _, promise, _ in MUTANTS} == {check.__name__ for check in CHECKS}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mutate", "promise", "world"), MUTANTS, ids=[mutate.__name__ for mutate, _, _ in MUTANTS]
)
def test_a_broken_promise_is_noticed(
    mutate: Callable[[Patch], None], promise: str, world: int | Faults, monkeypatch: Patch
) -> None:
    """Within a few worlds the checker of that very promise objects."""
    mutate(monkeypatch)

    assert any(broken(promise, world))


def broken(promise: str, world: int | Faults) -> Iterator[bool]:
    """Whether a promise is broken, in one world of a kind after another."""
    is_of_ours = isinstance(world, Faults)
    first = EVERYTHING if is_of_ours else world
    for seed in range(first, first + len(WORLDS) * TRIES, len(WORLDS)):
        plan = plan_of(seed)
        if is_of_ours:
            plan = replace(plan, world="ours", faults=world)
        wrong = wrong_with(run_world(plan))
        yield any(each.startswith(f"{promise}: ") for each in wrong)


@pytest.mark.slow
@pytest.mark.parametrize("faults", [HARSH, DRAINED], ids=["harsh", "drained"])
def test_our_own_world_breaks_no_promise(faults: Faults) -> None:
    """What is noticed there of a mutant is not noticed of the worker."""
    assert wrong_with(run_world(replace(plan_of(8), world="ours", faults=faults))) == []
