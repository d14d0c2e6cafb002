"""Lines of a process that may write anything, and lists of tools that may hold anything."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
from hypothesis import given

from worker.mcp.lines import LineBuffer, TooLong
from worker.mcp.streams import clean_list


@given(st.binary(max_size=300), st.lists(st.integers(1, 40), max_size=30))
def test_lines_do_not_depend_on_how_they_arrive(data: bytes, cuts: list[int]):
    """Any cutting of the bytes gives the same lines."""
    whole, pieces = LineBuffer(1000), LineBuffer(1000)
    expected = list(whole.feed(data))
    found: list[Any] = []
    for cut in cuts:
        found += pieces.feed(data[:cut])
        data = data[cut:]
    found += pieces.feed(data)
    assert found == expected
    assert pieces.rest() == whole.rest()


def test_a_line_that_is_too_long_is_dropped_and_says_what_it_answered():
    """So that its caller learns of it, and nobody else does."""
    ahead = b'{"jsonrpc":"2.0","id":7,"result":{"x":"' + b"y" * 5000 + b'"}}\n'
    behind = b'{"result":{"id":3,"x":"' + b"y" * 5000 + b'"},"id":8,"jsonrpc":"2.0"}\n'
    unclear = b'{"method":"x","params":{"id":9,"x":"' + b"y" * 5000 + b'"}}\n'
    buffer = LineBuffer(1000)
    lines = list(buffer.feed(ahead + behind + unclear + b"short\n"))
    assert lines == [TooLong(7), TooLong(8), TooLong(None), b"short"]


def test_memory_is_bounded_by_the_longest_line():
    """A line without an end is not kept."""
    buffer = LineBuffer(1000)
    for _ in range(100):
        assert list(buffer.feed(b"x" * 1000)) == []
    assert len(buffer._buffer) <= 1256
    assert buffer.rest() is None


def test_one_malformed_tool_does_not_cost_the_others():
    """The SDK would refuse the whole list."""
    left_out: list[tuple[str, str]] = []
    entries = [
        {"name": "good", "inputSchema": {"type": "object"}, "description": "fine"},
        "no object",
        {"name": 7},
        {"name": "x" * 200, "inputSchema": {}},
        {"name": "in\x1bvisible", "inputSchema": {}},
        {"name": "bare"},
        {"name": "text", "inputSchema": {"type": "string"}},
        {"name": "odd", "inputSchema": {"properties": {"a": 5}}},
        {"name": "odder", "inputSchema": {"required": "a"}},
        {"name": "untyped", "inputSchema": {}, "annotations": {"readOnlyHint": "yes"}},
    ]
    cleaned = clean_list(entries, lambda name, fault: left_out.append((name, fault)))
    assert [entry["name"] for entry in cleaned] == ["good", "untyped"]
    assert len(left_out) == 8
    assert cleaned[1] == {"name": "untyped", "inputSchema": {"type": "object"}, "annotations": {}}


def test_what_schemas_say_of_results_is_not_kept():
    """The SDK would check results with an engine that can run away."""
    entry = {"name": "a", "inputSchema": {}, "outputSchema": {"pattern": "(a+)+"}, "_meta": {}}
    (cleaned,) = clean_list([entry], lambda name, fault: None)
    assert set(cleaned) == {"name", "inputSchema"}
