"""What a rule found ends the run, at once and for good, and the result says which rule and why."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.test_loop import NOW, answer, call, calling, histories, replay, returned, started
from worker.core.effects import CallModel, Finish
from worker.core.ending import result_of
from worker.core.errors import IllegalEvent
from worker.core.events import Ended, HandedOff, Resumed
from worker.core.limits import Limits, Status, final_status
from worker.core.loop import Loop
from worker.core.messages import ReplyKind, Source
from worker.core.task import Handoff
from worker.core.wireformat import result_from_wire, result_to_wire

BY_ANSWER = HandedOff(NOW, "legal", "建议咨询律师")
BY_RESULT = HandedOff(NOW, "risk", "risk level 5", "result", "c1")


def ended_by(*events, **limits):
    """The effect and the result after these events."""
    loop = replay(*events, **limits)
    effect = loop.next(NOW)
    assert isinstance(effect, Finish)
    return effect, result_of(loop, effect, ended_at=NOW)


@pytest.mark.parametrize("kind", [ReplyKind.ANSWER, ReplyKind.LENGTH, ReplyKind.REFUSED])
def test_rule_on_the_answer_keeps_the_models_words(kind):
    """Whole, cut or refused: what it said stands, and the result names the rule."""
    effect, result = ended_by(started(), answer("建议咨询律师。", kind), BY_ANSWER)

    assert (effect.status, effect.answer, effect.error) == ("handoff", "建议咨询律师。", None)
    assert result.handoff == Handoff("legal", "建议咨询律师")
    assert final_status(result.status) == "success"


@pytest.mark.parametrize(("language", "text"), [("zh", "已转交人工"), ("en", "handed over to one")])
def test_rule_on_a_result_says_that_a_person_takes_over(language, text):
    """The model is not asked again; the text is in the language of the question."""
    effect, result = ended_by(
        started(language=language), calling(call(), text="Let me see."), returned(), BY_RESULT
    )

    assert text in effect.answer
    assert "Let me see" not in result.answer
    assert result.handoff == Handoff("risk", "risk level 5", "result", "price", "c1")
    assert result.steps == 1


def test_what_was_left_undone_is_said():
    """A call of the same reply that had not begun is skipped, in the manifest and in the answer."""
    _, result = ended_by(
        started(), calling(call("c1"), call("c2", "refund")), returned("c1"), BY_RESULT
    )

    assert [(c.name, c.source) for c in result.tool_calls] == [
        ("price", "live"),
        ("refund", "skipped"),
    ]
    assert [(d.tool, d.source) for d in result.degraded] == [("refund", "skipped")]
    assert "Note: refund was not run" in result.answer


def test_degraded_hand_off_stays_honest():
    """An invented figure does not go out because a person takes over, and the stub is said."""
    stub = returned("c1", "行情暂不可用 (…)", source=Source.STUB, stub="行情暂不可用")
    said = answer("The price is 481.27; 建议咨询律师。")
    _, result = ended_by(started(), calling(call()), stub, said, BY_ANSWER)

    assert result.status == "handoff"
    assert "481.27" not in result.answer
    assert "行情暂不可用" in result.answer
    assert [sign.symptom for sign in result.diagnosis] == ["invented_value"]
    assert result.handoff is not None


def test_first_of_several_counts():
    """Parallel calls may each find something; one rule ends the run."""
    later = HandedOff(NOW, "other", "x", "result", "c2")
    _, result = ended_by(
        *(started(), calling(call("c1"), call("c2"))),
        *(returned("c1"), BY_RESULT, returned("c2"), later),
    )

    assert result.handoff.rule == "risk"


def test_no_limit_comes_before_it_and_nothing_undoes_it():
    """Deadline, budget and a later delivery find the hand-off; only a cancel stands above it."""
    events = [started(deadline=NOW - 1), calling(call()), returned(), BY_RESULT]
    cancelled = replay(*events, Ended(NOW, "cancelled"))

    assert ended_by(*events, tokens=1)[0].status == Status.HANDOFF
    assert ended_by(*events, Resumed(NOW, 2))[0].status == Status.HANDOFF
    effect = cancelled.next(NOW)
    assert effect.status == "cancelled"
    assert result_of(cancelled, effect, ended_at=NOW).handoff is None


@pytest.mark.parametrize(
    "events",
    [
        (started(), BY_ANSWER),
        (started(), calling(call()), BY_ANSWER),
        (started(), calling(call()), BY_RESULT),
        (started(), calling(call()), returned(), HandedOff(NOW, "r", "x", "result", "c9")),
    ],
    ids=["nothing said", "only called", "no result yet", "no such call"],
)
def test_rule_on_what_is_not_there_is_an_impossible_journal(events):
    """The event is refused, and the state is left alone."""
    loop = replay(*events[:-1])

    with pytest.raises(IllegalEvent):
        loop.apply(events[-1])
    assert loop.handed_off is None


def test_result_keeps_it_on_the_wire_and_older_results_have_none():
    """The field is an addition to version 1."""
    _, result = ended_by(started(), answer("x"), BY_ANSWER)
    wire = result_to_wire(result)
    older = {name: value for name, value in wire.items() if name != "handoff"}

    assert wire["handoff"] == {
        "rule": "legal",
        "reason": "建议咨询律师",
        "source": "answer",
        "tool": None,
        "call_id": None,
    }
    assert result_from_wire(wire) == result
    assert result_from_wire(older).handoff is None


@settings(max_examples=150, deadline=None)
@given(histories(), st.data())
def test_invariant_hand_off_replays_and_asks_nobody_again(made, data):
    """Wherever a rule fires in a run, that is its end, also in a replay and under other limits."""
    limits, events = made
    cut = data.draw(st.integers(1, len(events)))
    loop = Loop.replay(limits, events[:cut])
    seen = [c.id for _, c, _ in loop.observed] + list(loop.returned)
    is_answered = loop.last is not None and loop.last.kind is ReplyKind.ANSWER
    if is_answered:
        found = BY_ANSWER
    elif seen:
        found = HandedOff(NOW, "risk", "x", "result", data.draw(st.sampled_from(seen)))
    else:
        return
    other = Limits(max_repeats=data.draw(st.integers(1, 9)), tokens=data.draw(st.integers(1, 9)))
    loop.apply(found)
    again = Loop.replay(other, [*events[:cut], found])

    assert loop.next(NOW) == loop.next(NOW) == again.next(NOW + 1e9)
    assert not isinstance(loop.next(NOW), CallModel)
    result = result_of(loop, loop.next(NOW), ended_at=NOW)
    assert (result.status, result.handoff.rule) == ("handoff", found.rule)
    assert len(result.tool_calls) == len(loop.observed) + len(loop.pending)
