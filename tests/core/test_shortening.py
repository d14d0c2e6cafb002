"""A conversation that a server refuses for its length is sent shorter, three times at most."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.test_loop import NOW, answer, bodies, call, calling, replay, returned, started
from worker.core.effects import CallModel, CutHistory, Finish
from worker.core.errors import IllegalEvent
from worker.core.events import HistoryCut, ModelFailed
from worker.core.history import cut, fitting, is_paired, shaped, tokens_of
from worker.core.limits import Limits, Status
from worker.core.loop import Loop
from worker.core.shortening import Shortening

TOO_LONG = ModelFailed(NOW, Status.CONTEXT_OVERFLOW, "maximum context length", transient=False)


def turn(number, size=30):
    """One turn with a call."""
    asked = {"id": f"h{number}", "type": "function", "function": {"name": "price"}}
    return (
        {"role": "user", "content": f"q{number}"},
        {"role": "assistant", "content": None, "tool_calls": [asked]},
        {"role": "tool", "tool_call_id": f"h{number}", "content": "x" * size},
        {"role": "assistant", "content": f"a{number}"},
    )


def talk(count, size=30):
    """A conversation of so many turns."""
    return tuple(message for number in range(count) for message in turn(number, size))


def refuse(loop, times=1):
    """Refuse what is sent for its length, and take in what the loop makes of it."""
    for _ in range(times):
        loop.apply(TOO_LONG)
        effect = loop.next(NOW)
        if isinstance(effect, CutHistory):
            loop.apply(HistoryCut(NOW, effect.turns, effect.whole))
    return effect


def asked(loop):
    """The questions that are sent, and whether all calls are paired."""
    sent = bodies(loop.next(NOW))
    assert is_paired(sent)
    return [m["content"] for m in sent if m["role"] == "user"]


def test_a_refusal_leaves_a_third():
    """The newest turns stay, as a whole while they fit; then nothing but the question."""
    loop = replay(started("and now?", history=talk(9)))
    before = loop.shortening.tokens
    refuse(loop)

    assert asked(loop) == ["q6", "q7", "q8", "and now?"]
    assert before / 6 < loop.shortening.tokens <= before / 3
    refuse(loop)
    assert asked(loop) == ["q8", "and now?"]
    refuse(loop)
    assert asked(loop) == ["and now?"]


def test_when_nothing_is_left_to_spare_the_run_ends():
    """What remains too long then is the question itself, or what the run has found."""
    loop = replay(started(history=talk(9)))
    effect = refuse(loop, times=4)

    assert isinstance(effect, Finish)
    assert effect.status == Status.CONTEXT_OVERFLOW


def test_without_a_conversation_nothing_is_asked_again():
    """The same request would be refused once more."""
    assert isinstance(refuse(replay(started())), Finish)


@pytest.mark.parametrize("status", sorted(set(Status) - {Status.CONTEXT_OVERFLOW}))
def test_other_failures_cut_nothing(status):
    """Only a refusal for the length says that it is too long."""
    loop = replay(started(history=talk(3)), ModelFailed(NOW, status, "x", transient=False))

    assert isinstance(loop.next(NOW), Finish)


def test_what_the_run_has_found_stays():
    """In the middle of a run the conversation before it goes, its own rounds stay."""
    loop = replay(started("and now?", history=talk(3)), calling(call("a")), returned("a", "42"))
    refuse(loop, times=3)

    sent = bodies(loop.next(NOW))
    assert [m["role"] for m in sent] == ["system", "user", "assistant", "tool"]
    assert sent[-1]["content"].startswith("42")
    loop.apply(answer())
    assert loop.next(NOW).status == Status.COMPLETED


def test_one_long_turn_leaves_what_was_said():
    """A turn whose results are too long is kept as question and answer."""
    loop = replay(started("and now?", history=talk(1, size=5_000)))
    refuse(loop)

    assert [m["content"] for m in bodies(loop.next(NOW))[1:]] == ["q0", "a0", "and now?"]


def test_a_replay_sends_the_same():
    """The decision is in the event: another estimate in a later release changes nothing."""
    events = [started(history=talk(9)), TOO_LONG, HistoryCut(NOW, 5, 2)]
    loop = Loop.replay(Limits(), events)

    sent = bodies(loop.next(NOW))
    assert [m["content"] for m in sent if m["role"] == "user"] == [
        *["q4", "q5", "q6", "q7", "q8"],
        "hello",
    ]
    assert sum("tool_calls" in m for m in sent) == 2
    assert isinstance(loop.next(NOW), CallModel)


def test_a_cut_while_calls_wait_is_refused():
    """A request is made only when no call waits, so nothing can be too long meanwhile."""
    loop = replay(started(history=talk(2)), calling(call("a")))

    with pytest.raises(IllegalEvent):
        loop.apply(HistoryCut(NOW, 0, 0))
    assert loop.shortening.cuts == 0


@given(st.integers(0, 6), st.integers(0, 6), st.integers(0, 6), st.integers(0, 2_000))
def test_any_cut_is_paired_and_smaller(count, turns, whole, size):
    """Whatever an event says: whole turns, no call without its result, never more than before."""
    messages = list(talk(count, size))
    kept = shaped(messages, turns, whole)

    assert is_paired(kept)
    assert sum(map(tokens_of, kept)) <= sum(map(tokens_of, messages))
    assert [m["content"] for m in kept if m["role"] == "user"] == [
        f"q{n}" for n in range(max(0, count - turns), count)
    ]


@given(st.integers(0, 6), st.integers(0, 30), st.integers(0, 600))
def test_what_fits_is_what_is_cut_to(count, at_most, tokens_max):
    """The bound of the settings and that of a refusal keep the same."""
    messages = list(talk(count))
    kept = shaped(messages, *fitting(messages, at_most=at_most, tokens_max=tokens_max))

    assert kept == cut(messages, at_most=at_most, tokens_max=tokens_max)


def test_it_says_how_far_it_is():
    """For whoever debugs a run."""
    assert repr(Shortening()) == "Shortening(0 messages, 0 cuts)"
