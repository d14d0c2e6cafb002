"""What counts as told: which observations, how much of them, and how a figure stands in them."""

from __future__ import annotations

import pytest

from worker.core import gate
from worker.core.gate import Evidence, check, enforce
from worker.core.messages import Observation, Source

STUB = Observation("Quotes are unavailable.", Source.STUB, stub="Quotes are unavailable.")


def is_altered(answer, *observed, question="What is there?"):
    """Whether the answer of a run that lacks quotes is altered."""
    return enforce(answer, Evidence(question, [("quote", STUB), *observed]))[1]


def test_only_the_first_part_of_very_long_texts_is_read(monkeypatch):
    """Reading takes time on the event loop; what stands beyond the bound counts as not told."""
    monkeypatch.setattr(gate, "_CHARACTERS_MAX", 100)
    told = "The weight is 4711 kg. " + "x " * 50 + "The length is 3853 m."

    assert not is_altered("It weighs 4711 kg.", ("lookup", Observation(told)))
    assert is_altered("It is 3853 m long.", ("lookup", Observation(told)))


def test_the_name_of_a_tool_may_be_said():
    """An answer that says which tool failed invents nothing."""
    observation = Observation("skipped", Source.SKIPPED)

    assert not is_altered("report_2025 was not run.", ("report_2025", observation))
    assert is_altered("report_2026 was not run.", ("report_2025", observation))


def test_what_a_note_says_may_be_quoted_but_is_no_price():
    """A call that was not run has its reasons, with a number in them."""
    observation = Observation("not run: error 4711", Source.SKIPPED)

    assert not is_altered("It was refused with error 4711.", ("lookup", observation))
    assert is_altered("The price is $4711.", ("lookup", observation))


@pytest.mark.parametrize(
    ("answer", "altered"),
    [
        ("I tried 3 times.", False),
        ("I tried 4 times.", False),
        ("I tried 7 times in all.", False),
        ("I tried 6 times in all.", True),
    ],
)
def test_attempts_may_be_counted_each_and_together(answer, altered):
    """Of two tools that were tried three and four times."""
    observed = [
        ("one", Observation("no data", Source.SKIPPED, attempts=3)),
        ("two", Observation("no data", Source.SKIPPED, attempts=4)),
    ]

    found = enforce(answer, Evidence("What is there?", [*observed, ("quote", STUB)]))

    assert STUB.attempts == 0
    assert found[1] is altered


def test_what_the_question_lists_may_be_counted():
    """Five names in it are five, without a tool for each."""
    question = "AAPL、MSFT、TSLA、NVDA 和 AMD 的股价?"

    assert not is_altered("这 5 个都查不到。", question=question)
    assert is_altered("这 6 个都查不到。", question=question)


def test_the_year_of_a_date_that_was_told_may_stand_alone():
    """In 2026: nothing is said that was not told."""
    assert check("In 2026 it began.", admissible=["date: 2026-12-02"]).invented == ()
    assert check("In 2025 it began.", admissible=["date: 2026-12-02"]).invented == ("2025",)


@pytest.mark.parametrize(
    ("said", "told", "invented"),
    [
        ("在12号。", '{"门牌": "C12号"}', ()),
        ("在3号楼。", "地址: 3号楼", ()),
        ("发货是3号。", "发货日是 13号", ("3号",)),
        ("发货是三号。", "发货日是二十三号", ("三号",)),
    ],
)
def test_a_number_with_its_sign_is_told_only_as_a_whole(said, told, invented):
    """The third is no part of the thirteenth."""
    assert check(said, admissible=[told]).invented == invented


def test_what_is_reckoned_with_few_digits_has_to_be_near():
    """Forty and eight kilograms are about 48, but not about 50."""
    told = ['{"apples_kg": 40, "pears_kg": 8}']

    assert check("It is about 48 kg in all.", admissible=told).invented == ()
    assert check("It is about 52 kg in all.", admissible=told).invented == ("52 kg",)
    assert check("It is about 50 kg in all.", admissible=told).invented == ("50 kg",)


def test_the_days_of_which_something_is_told_may_be_counted():
    """Three values are those of three days."""
    told = ['{"mon": 51, "tue": 62, "wed": 75}']

    assert check("Over the 3 days it rose.", admissible=told).invented == ()
    assert check("Over the 4 days it rose.", admissible=told).invented == ("4 days",)


def test_so_many_figures_are_reckoned_and_no_more():
    """Reckoning takes time on the event loop: after 200 tries a sum is no longer looked for."""
    told = ['{"apples_kg": 413.5, "pears_kg": 71.25}']
    made = " ".join(f"{70_000 + 37 * n} kg," for n in range(220))

    assert check("It is 484.75 kg in all.", admissible=told).invented == ()
    assert "484.75 kg" in check(f"{made} and 484.75 kg in all.", admissible=told).invented
