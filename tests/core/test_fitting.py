"""Which tools a question is about: few false alarms first, and most of the plain cases."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.fitting_cases import ABOUT, ABOUT_NOTHING, TOOLS, offered
from worker.core.fitting import fitting, words_of

ALL = words_of(TOOLS.values())


def names(question, tools=ALL):
    """The names of the tools that fit."""
    return [fit.tool.name for fit in fitting(question, tools)]


def test_a_question_that_needs_no_tool_fits_none():
    """At most one in a hundred: a false alarm costs more than a missed one."""
    false = [(question, names(question)) for question in ABOUT_NOTHING if names(question)]

    assert len(false) * 100 <= len(ABOUT_NOTHING), false


def test_a_question_about_a_tool_fits_it():
    """Nine in ten, in Chinese and in English, whichever language the tool is described in."""
    missed = [(question, tool) for question, tool in ABOUT if tool not in names(question)]

    assert len(missed) * 10 <= len(ABOUT), missed


def test_the_best_fit_comes_first():
    """An order's status is asked of the orders, though a ticket has a status as well."""
    assert names("What is the status of order 20261202US0042?")[0] == "get_order_detail"


def test_without_tools_nothing_fits():
    """No tool, no fit."""
    assert names("现在几点?", ()) == []


def test_a_tool_of_an_unknown_subject_is_found_by_its_own_words():
    """No word list can know every tool: names and descriptions speak for themselves."""
    tools = words_of([offered("kiln_status", "State of the kiln in hall 3.", "kiln_id")])

    assert names("What is the status of kiln K-204?", tools) == ["kiln_status"]
    assert names("Who invented the kiln?", tools) == []


def test_a_mention_in_passing_of_a_description_is_not_enough():
    """An order has a creation time, and is asked for no clock."""
    tools = words_of([offered("get_order_detail", "Item, amount and creation time.", "order_id")])

    assert names("现在几点?", tools) == []


@pytest.mark.parametrize(
    ("name", "description", "question"),
    [
        ("stumble", "Fail, each time.", "现在几点?"),
        ("get_delivery_time", "Days until an order arrives.", "What time is it in Oslo?"),
        ("set_limit", "Set the time limit of a job.", "现在几点了"),
        ("sort_rows", "Sort rows in order to print them.", "Where is my order?"),
        ("check_stock", "Items in stock by sku.", "AAPL 的股价是多少?"),
        ("resolve", "Maps an id to a name, in place.", "附近的咖啡馆"),
        ("sync", "Keep the index up to date.", "今天几号?"),
    ],
)
def test_a_word_in_another_sense_fits_nothing(name, description, question):
    """What a description happens to say is not what the tool is for."""
    assert names(question, words_of([offered(name, description, "x")])) == []


@given(st.text(max_size=300), st.text(max_size=300), st.text(max_size=20))
def test_whatever_is_asked_and_described_is_read(question, description, name):
    """No text breaks it, and the same texts always give the same."""
    tools = words_of([offered(name, description, name)])

    assert names(question, tools) == names(question, tools)


def test_a_long_question_is_read_at_its_ends():
    """Pasted material in the middle costs nothing and changes nothing."""
    material = "lorem ipsum " * 20_000

    assert "get_current_time" in names(f"现在几点?\n{material}")
    assert "get_current_time" in names(f"{material}\n现在几点?")
