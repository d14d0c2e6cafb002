"""What becomes of a tool that a run lacked: in its calls, its requests, and its result."""

from __future__ import annotations

import pytest

from tests.core.test_offering import LIVE, NOW, QUOTE, WORDS, asked, begun, call, changed
from worker.core.effects import Finish
from worker.core.ending import result_of
from worker.core.events import (
    ApprovalAsked,
    Away,
    Decided,
    ModelReplied,
    Started,
    ToolReturned,
    ToolStarted,
)
from worker.core.limits import Limits, Status
from worker.core.loop import Loop
from worker.core.messages import Observation, Source, ToolCall
from worker.core.offering import Offering
from worker.model.scripted import calls


@pytest.mark.parametrize("source", [Source.LIVE, Source.ALTERNATIVE, Source.STALE])
def test_whatever_a_tool_that_came_back_gave_it_is_not_missed(source):
    """An old value or that of another source has a row of its own."""
    offering = Offering()
    offering.apply(changed(*asked("苹果的股价?", QUOTE)), "zh")
    offering.apply(changed(), "zh")

    offering.observe(call(), Observation("227.52", source))

    assert offering.skipped("zh") == []


def test_a_late_result_of_a_tool_that_is_still_away_does_not_bring_it_back():
    """The next call of it would be refused: the run lacks it."""
    offering = Offering()
    offering.apply(changed(*asked("苹果的股价?", QUOTE)), "zh")

    offering.observe(call(), LIVE)

    assert [name for name, _ in offering.skipped("zh")] == ["get_stock_price"]


def test_a_tool_that_stayed_on_offer_and_answered_is_not_missed():
    """It was needed, it was called, and it had another source."""
    offering = Offering()
    stays = Away("get_stock_price", "breaker_open", offered=True, concerns=True)
    offering.apply(changed(stays), "zh")
    assert len(offering.skipped("zh")) == 1

    offering.observe(call(), LIVE)

    assert offering.skipped("zh") == []


@pytest.mark.parametrize("question", ["现在几点?", "微软呢?" + "请你再仔细想一想," * 3])
def test_only_a_short_question_with_no_subject_of_its_own_follows_the_turn_before(question):
    """One about the time of the day, or a long one, says itself what it is about."""
    message = calls(("get_stock_price", {"symbol": "AAPL"})).message
    history = [{"role": "user", "content": "股价?"}, message]

    assert not asked(question, QUOTE, history=history)[0].concerns


def test_a_tool_that_is_away_itself_stands_in_for_none():
    """Of two that tell the weather the other one helps only while it is there."""
    one, other = Away("weather", "breaker_open"), Away("query_tianqi", "breaker_open")

    assert [each.instead for each in asked("北京天气怎么样?", one)] == [("query_tianqi",)]
    assert [each.instead for each in asked("北京天气怎么样?", one, other)] == [(), ()]


# --- in the loop ---------------------------------------------------------------------------------


def test_an_approved_call_of_a_tool_that_was_withdrawn_is_made():
    """A person has said yes to this very call; the guard says what becomes of it."""
    wanted = ToolCall("c1", "get_stock_price", {})
    digest = "sha256:44136fa355b3678a"
    loop = begun(
        changed(QUOTE),
        ModelReplied(NOW, calls(wanted)),
        ApprovalAsked(NOW, "c1", digest, NOW + 100),
        Decided(NOW, "c1", True, digest, by="ann"),
    )

    effect = loop.next(NOW)

    assert [each.id for each in effect.calls] == ["c1"]
    assert effect.answered == ()


def test_a_call_that_is_over_is_not_in_doubt():
    """Of two that began, the one with a result has had its effect."""
    both = calls(ToolCall("c1", "clock", {}), ToolCall("c2", "clock", {}))
    began = [ToolStarted(NOW, "c1", "k1"), ToolStarted(NOW, "c2", "k2")]

    loop = begun(ModelReplied(NOW, both), *began, ToolReturned(NOW, "c1", LIVE))

    assert loop.in_doubt == {"c2"}
    assert loop.next(NOW).in_doubt == {"c2"}


def test_what_the_loop_told_of_a_tool_is_told_in_every_later_request():
    """Later requests begin like the one that told it."""
    loop = begun(changed(QUOTE))
    first = [message.body for message in loop.next(NOW).messages]
    assert "行情暂不可用" in first[0]["content"]

    loop.apply(ModelReplied(NOW, calls(ToolCall("c1", "clock", {}))))
    loop.apply(ToolReturned(NOW, "c1", LIVE))
    later = [message.body for message in loop.next(NOW).messages]

    assert later[: len(first)] == first


# --- in the result -------------------------------------------------------------------------------


def ended(question, said, *events):
    """The result of a run that ends with this answer."""
    task = {"id": "t", "input": question}
    begin = Started(NOW, task, 8, "fixed", "You are …", ("get_stock_price", "clock"), "zh")
    loop = Loop.replay(Limits(), [begin, *events])
    finish = Finish(Status.COMPLETED, said)
    return result_of(loop, finish, ended_at=NOW, words=WORDS)


def test_a_missed_tool_is_in_the_manifest_and_its_stub_in_the_answer():
    """Who reads the answer learns what it lacks, even where the model kept silent."""
    result = ended("苹果的股价?", "不太清楚。", changed(*asked("苹果的股价?", QUOTE)))

    assert [(d.tool, d.source, d.reason) for d in result.degraded] == [
        ("get_stock_price", "skipped", "breaker_open")
    ]
    assert "行情暂不可用" in result.answer


@pytest.mark.parametrize(
    ("question", "said"),
    [("苹果的股价?", "现在是 123.45。"), ("你觉得呢?", "AAPL 的股价是 123.45 元。")],
)
def test_a_value_that_only_the_missed_tool_could_tell_does_not_go_out(question, said):
    """By the question it is known what was lacking, or else by what the answer says."""
    result = ended(question, said, changed(*asked(question, QUOTE)))

    assert "123.45" not in result.answer
    assert [each.symptom for each in result.diagnosis] == ["invented_value"]


def test_relative_days_are_those_of_the_day_on_which_the_run_began():
    """The run began on 21 September 2026, a Monday."""

    def told(day):
        quote = Observation(f'{{"close": 227.52, "date": "{day}"}}')
        events = [
            changed(*asked("苹果的股价?", QUOTE)),
            ModelReplied(NOW, calls(ToolCall("c1", "clock", {}))),
            ToolReturned(NOW, "c1", quote),
        ]
        return ended("苹果的股价?", "昨天收盘 227.52。", *events).answer

    assert "227.52" in told("2026-09-20")
    assert "227.52" not in told("2026-09-15")


def test_a_call_that_may_have_had_its_effect_is_not_called_skipped():
    """The run ended in the middle of it: nobody knows, and the result says so."""
    both = calls(ToolCall("c1", "clock", {}), ToolCall("c2", "clock", {}))

    result = ended("现在几点?", "", ModelReplied(NOW, both), ToolStarted(NOW, "c1", "key"))

    assert [each.source for each in result.tool_calls] == [Source.UNKNOWN, Source.SKIPPED]
