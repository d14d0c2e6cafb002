"""Tasks as brokers keep them, and messages of other programs."""

from __future__ import annotations

import json

import pytest

from worker.queues.memory_shelf import Row
from worker.queues.row_text import header_of, row_of, task_of


@pytest.mark.parametrize(
    ("headers", "found"),
    [
        ({}, (0, "ready", 100.0)),
        ({"priority": "5"}, (5, "ready", 100.0)),
        ({"Priority": "-1e3"}, (-100, "ready", 100.0)),
        ({"not_before": "200.5"}, (0, "delayed", 200.5)),
        ({"priority": "high", "not_before": "nan"}, (0, "ready", 100.0)),
        ({"priority": "inf", "not_before": "1e13"}, (0, "ready", 100.0)),
    ],
)
def test_headers_of_others(headers, found):
    """What is no number counts as 0, whatever it is."""
    row = task_of(headers, b"1", task_id="t-1", now=100.0)

    assert (row.priority, row.state, row.ready_at) == found


def test_there_and_back():
    """A row comes back as it was, with what was noted beside it; long lines are cut."""
    row = Row("käse", b"1", 3, 7, 100.0, 101.0, history=["a", "b" * 1000])
    found = row_of(header_of(row, proof="x"), b"1")

    assert found is not None
    again, more = found
    assert (again.id, again.body, again.ready_at, again.history[0]) == ("käse", b"1", 101.0, "a")
    assert (len(again.history[1]), more) == (500, {"proof": "x"})


@pytest.mark.parametrize("header", ["", "{", "[]", "{}", '{"more": {}, "no": 1}', "[" * 9_000])
def test_foreign_messages(header):
    """A message that is no row of ours is told apart."""
    assert row_of(header, b"") is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"id": 5},
        {"id": "\ud800"},
        {"priority": "5"},
        {"number": 1e9},
        {"deliveries": "x"},
        {"deliveries": -(10**30)},
        {"handings": True},
        {"ready_at": 1e999},
        {"ready_at": 1e17},
        {"enqueued_at": None},
        {"state": "bogus"},
        {"woken": 1},
        {"history": "abc"},
        {"history": [1, None]},
        {"more": 3},
    ],
)
def test_a_forged_row_is_none_of_ours(wrong):
    """Whoever may send a task may write its headers: what a worker would stumble at is no row."""
    row = Row("t", b"1", 3, 7, 100.0, 101.0)
    header = json.loads(header_of(row))

    assert row_of(json.dumps(header), b"1") is not None
    assert row_of(json.dumps(header | wrong), b"1") is None
