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
