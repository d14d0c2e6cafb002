"""What stood in for what is in the result and in the answer."""

from __future__ import annotations

import pytest

from worker.core.honesty import manifest, with_notes
from worker.core.messages import Observation, Source

STUB = Observation(
    "…", Source.STUB, reason="breaker_open", stub="行情暂不可用", retry_after_seconds=12.0
)


def test_the_stub_text_is_added_when_the_model_left_it_out():
    """A degraded answer never looks like a full one."""
    answer = with_notes("苹果股价是 123 元", [("get_stock_price", STUB)], language="zh")

    assert answer.startswith("苹果股价是 123 元")
    assert "行情暂不可用" in answer
    assert "get_stock_price" in answer


def test_nothing_is_added_when_the_answer_says_so_itself():
    """The note is not repeated."""
    said = "抱歉,行情暂不可用。"

    assert with_notes(said, [("get_stock_price", STUB)], language="zh") == said


def test_a_withdrawn_tool_is_told_of_by_its_stub_text():
    """Nobody called it; what is missing is said all the same, and once."""
    skipped = Observation("…", Source.SKIPPED, reason="breaker_open", stub="行情暂不可用")

    assert "行情暂不可用" in with_notes("好的。", [("quote", skipped)], language="zh")
    said = "行情暂不可用。"
    assert with_notes(said, [("quote", skipped)], language="zh") == said


@pytest.mark.parametrize(
    ("observation", "language", "words"),
    [
        (Observation("9", Source.STALE, age_seconds=61.2), "zh", "61 秒前"),
        (Observation("9", Source.STALE, age_seconds=61.2), "en", "61 s old"),
        (Observation("9", Source.ALTERNATIVE), "en", "alternative source"),
        (Observation("?", Source.UNKNOWN), "zh", "需要人工核实"),
        (Observation("-", Source.SKIPPED), "en", "was not run"),
    ],
)
def test_each_source_has_its_note_in_both_languages(observation, language, words):
    """Stale tells its age, unknown asks for a person."""
    assert words in with_notes("fine", [("tool", observation)], language=language)


def test_mistakes_of_the_model_do_not_degrade():
    """Invalid arguments are the model's, a dependency's error is not."""
    mistake = Observation("e", Source.ERROR, error_type="invalid_arguments")
    failure = Observation("e", Source.ERROR, error_type="timeout", dependency_failed=True)
    crowd = Observation("e", Source.SKIPPED, reason="too_many_calls")

    assert manifest([("a", mistake), ("b", crowd)]) == ()
    assert [(d.tool, d.source, d.reason) for d in manifest([("a", failure)])] == [
        ("a", "error", "timeout")
    ]


def test_the_manifest_has_one_entry_for_each_tool_and_source():
    """Three stubs of one tool are one degradation, with the newest retry time."""
    newer = Observation("…", Source.STUB, reason="breaker_open", stub="x", retry_after_seconds=3.0)

    parts = manifest([("q", STUB), ("q", newer)])

    assert [(p.tool, p.source, p.retry_after_s) for p in parts] == [("q", "stub", 3.0)]


def stale(age):
    """A last good value of that age."""
    return Observation("9", Source.STALE, age_seconds=age)


def test_words_that_only_look_like_it_do_not_count():
    """Gold that was sold is no stale value, and an unknown buyer no unknown outcome."""
    gold = with_notes("Gold stands at 2000; it was sold.", [("price", stale(60))], language="en")
    refund = with_notes(
        "Refund of the unknown buyer is done.",
        [("submit_refund", Observation("?", Source.UNKNOWN))],
        language="en",
    )

    assert "60 s old" in gold
    assert "a person has to check" in refund


def test_one_mention_speaks_for_one_tool():
    """With two stale values the answer has to name each, or a note is added."""
    rows = [("a", stale(60)), ("b", stale(90))]

    answer = with_notes("A is 5 (stale, 60 s); B is 6", rows, language="en")

    assert "Note: b is unavailable; its data is 90 s old." in answer
    assert "Note: a is" not in answer


@pytest.mark.parametrize("error_type", ["timeout", "circuit_open", "bulkhead_full", "http_5xx"])
def test_a_dependency_that_was_not_there_is_said(error_type):
    """Without a stand-in too, an answer must not look like a full one."""
    absent = Observation("e", Source.ERROR, error_type=error_type, dependency_failed=True)

    assert "may be incomplete" in with_notes("done", [("crm", absent)], language="en")
    said = "Sorry, the CRM is unavailable."
    assert with_notes(said, [("crm", absent)], language="en") == said


def test_a_tool_that_lacks_a_setting_was_not_there_either():
    """Nobody was asked, so the answer says that the tool failed."""
    absent = Observation("e", Source.ERROR, error_type="internal", reason="not_configured")

    assert "failed" in with_notes("It is 5.", [("price", absent)], language="en")


def test_what_a_tool_raised_in_its_own_words_is_left_to_the_model():
    """It read the error, and the manifest lists it; no sentence is added."""
    raised = Observation("e", Source.ERROR, error_type="internal", dependency_failed=True)

    assert with_notes("done", [("crm", raised)], language="en") == "done"
