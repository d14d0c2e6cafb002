"""Patterns on which an engine that backtracks runs away, and those on which it does not."""

from __future__ import annotations

import time

import pytest

from worker.mcp.ambiguity import danger_in

CATASTROPHIC = [
    r"^(a+)+$",
    r"(a*)*b",
    r"(a|a)*$",
    r"(a|ab)*(b|bb)*c(a|aa)+$",
    r"^([a-zA-Z0-9])(([\-.]|[_]+)?([a-zA-Z0-9]+))*(@){1}[a-z0-9]+$",
    r"(\w+\s?)*!",
    r"^(\d|\w)+$",
    r"^(([a-z])+.)+[A-Z]([a-z])+$",
    r"(.*)*x",
    r"(?:x+x+)+y",
    r"^(?<word>\w+)+$",
    r"(a{1,60})+b",
    r"^(?:(?:[01]?\d|2[0-3])?)+$",
]
HARMLESS = [
    r"^[a-z0-9_-]{1,64}$",
    r"^\d{4}-\d{2}-\d{2}$",
    r"^https?://[^\s/$.?#][^\s]*$",
    r"^(GET|POST|PUT)$",
    r"^[A-Z]{3}(-[A-Z]{3})*$",
    r"^(\d{1,3}\.){3}\d{1,3}$",
    r"^\p{L}+$",
    r"^#[0-9a-fA-F]{6}$",
    r"^(?!-)[a-z0-9-]+(?<!-)$",
    r"",
]


@pytest.mark.parametrize("pattern", CATASTROPHIC)
def test_catastrophic_patterns_are_dangerous(pattern: str):
    """A loop that reads the same text in two ways takes time that doubles with each character."""
    assert danger_in(pattern) is not None


@pytest.mark.parametrize("pattern", HARMLESS)
def test_patterns_that_people_write_are_not(pattern: str):
    """What schemas of honest servers hold is let through."""
    assert danger_in(pattern) is None


def test_back_references_and_long_patterns_are_refused():
    """Neither can be judged, and no parameter needs them."""
    assert danger_in(r"^(a+)\1$") == "has a back-reference"
    assert danger_in("a" * 1001) == "is longer than 1000 characters"


@pytest.mark.parametrize(
    "pattern",
    [
        "(a?){30}" * 8,
        "(" * 90 + "a" + ")*" * 90,
        "[a-z]?" * 160,
        "(a|b|c|d){1,40}" * 30,
        "((" * 400,
    ],
)
def test_judging_is_bounded(pattern: str):
    """A pattern that is made to be hard to judge is given up, soon."""
    began = time.process_time()
    danger_in(pattern[:1000])
    assert time.process_time() - began < 1.0
