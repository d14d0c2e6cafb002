"""Lines for watchers, whatever the journal holds and wherever the watcher comes in."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.web.house import NOW, calls, returned, started
from worker.core.events import (
    ApprovalAsked,
    Away,
    Decided,
    Event,
    JobStarted,
    ModelFailed,
    NoteAdded,
    Parked,
    Resumed,
    ToolsChanged,
    ToolStarted,
)
from worker.core.messages import Source
from worker.core.task import Result
from worker.store import codec
from worker.web.steps import Narrator

EVENTS = st.lists(
    st.sampled_from(
        [
            calls("get_stock_price"),
            calls(),
            returned(0),
            returned(0, source=Source.STALE, reason="timeout"),
            returned(7, source=Source.ERROR, error_type="http_5xx"),
            ToolStarted(NOW, "call_0", "key"),
            NoteAdded(NOW, "repeated_call", "…"),
            ModelFailed(NOW, "rate_limited", "429", True),
            Parked(NOW, "approval"),
            Resumed(NOW, 2),
        ]
    ),
    max_size=12,
)


def as_viewed(events: list[Event]) -> list[dict[str, Any]]:
    """Write events the way a journal shows them."""
    return [{"seq": i, **codec.load(codec.encode([event]))[0]} for i, event in enumerate(events)]


@given(EVENTS, st.integers(0, 12))
def test_lines_do_not_depend_on_how_events_arrive(events, cut):
    """Told at once or in two parts, the lines are the same, numbered by event, ending last."""
    viewed = as_viewed([started("zh"), *events])
    whole, parted = Narrator(), Narrator()
    lines = whole.tell(viewed)
    again = parted.tell(viewed[:cut]) + parted.tell(viewed[cut:])
    end = whole.end(Result("t", "completed", "好"))

    assert lines == again
    assert sorted({line.seq for line in lines}) == [line.seq for line in lines]
    assert end.seq > max(line.seq for line in lines)
    assert [line.is_final for line in [*lines, end]] == [False] * len(lines) + [True]


def test_degraded_call_names_tool_source_and_reason():
    """A call that came back stale is told with the tool's name, the source and the reason."""
    degraded = returned(0, source=Source.STALE, reason="breaker_open")
    lines = Narrator().tell(as_viewed([started("en"), calls("get_stock_price"), degraded]))

    assert lines[-1].content == "get_stock_price degraded: stale, breaker_open"


def test_tools_that_are_away_are_named_until_all_are_back():
    """One that stays on offer, for it may give an old value, is not told of."""
    quote, clock = Away("quote", "breaker_open"), Away("clock", "breaker_open", offered=True)
    changes = [ToolsChanged(NOW, away) for away in [(quote, clock), (clock,), ()]]
    lines = Narrator().tell(as_viewed([started("en"), *changes]))

    assert [line.content for line in lines[1:]] == [
        "Not offered for now: quote",
        "All tools are back",
    ]


def test_resumed_run_names_the_delivery():
    """Taken up again by whichever worker, the line says which delivery it is."""
    lines = Narrator().tell(as_viewed([started("en"), Resumed(NOW, 2)]))

    assert lines[-1].content == "Taken up again (delivery 2)"


@pytest.mark.parametrize(
    ("language", "lines"),
    [
        ("en", ["get_stock_price needs an approval", "Waiting: a person has to approve"]),
        ("zh", ["get_stock_price 需要有人批准", "等待中:需要有人批准"]),
    ],
)
def test_what_a_run_waits_for_is_told(language, lines):
    """That a person has to allow a call, and that the run waits for it."""
    events = [ApprovalAsked(NOW, "call_0", "sha256:0", NOW + 9), Parked(NOW, "approval")]
    told = Narrator().tell(as_viewed([started(language), calls("get_stock_price"), *events]))

    assert [line.content for line in told[2:]] == lines


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (Decided(NOW, "call_0", True, "sha256:0", "ann"), "get_stock_price was approved by ann"),
        (Decided(NOW, "call_0", False, "sha256:0", "ann"), "get_stock_price was denied by ann"),
        (JobStarted(NOW, "call_0", "h", NOW + 9), "get_stock_price began a job"),
        (Parked(NOW, "job"), "Waiting: the result of a job"),
        (Parked(NOW, "a reason of a newer worker"), "Waiting: a reason of a newer worker"),
    ],
)
def test_news_of_a_waiting_call_is_told(event, line):
    """Who decided, and that a job began."""
    told = Narrator().tell(as_viewed([started("en"), calls("get_stock_price"), event]))

    assert told[-1].content == line


def test_event_of_a_newer_worker_is_passed_over():
    """A kind that this version does not know gives no line and keeps the numbering."""
    narrator = Narrator()
    viewed = as_viewed([started("en"), started("en")])
    viewed[1] |= {"kind": "teleported", "data": {}}

    assert [line.seq for line in narrator.tell(viewed)] == [0]
    assert narrator.next_seq == 2


def test_end_without_an_answer_says_why():
    """A run that ended without text is told by its status and error."""
    narrator = Narrator()
    narrator.tell(as_viewed([started("zh")]))
    result = Result("t", "deadline", error="600 s")

    assert narrator.end(result).content == "结束,没有答案:deadline (600 s)"
    assert narrator.end(dataclasses.replace(result, answer="半")).content == "半"


def test_an_error_that_degrades_nothing_is_not_called_degraded():
    """What the model did wrong, or the tool said in its own words, is told as an error."""
    mistake = returned(0, source=Source.ERROR, reason="invalid_arguments")
    failure = returned(0, source=Source.ERROR, reason="timeout", dependency_failed=True)
    lines = Narrator().tell(as_viewed([started("en"), calls("get_price"), mistake, failure]))

    assert [line.content for line in lines[-2:]] == [
        "get_price returned an error: invalid_arguments",
        "get_price degraded: error, timeout",
    ]
