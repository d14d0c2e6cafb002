"""Earlier conversations are repaired and cut without orphaning a tool message."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from worker.core.history import cut, repaired


def turn(number, answered=True):
    """One user turn with a call."""
    messages = [
        {"role": "user", "content": f"q{number}"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": f"h{number}", "type": "function", "function": {}}],
        },
    ]
    if answered:
        messages.append({"role": "tool", "tool_call_id": f"h{number}", "content": "12.50"})
    return messages


def test_an_unanswered_call_gets_a_synthetic_result():
    """A history that ends in a call is made whole."""
    fixed = repaired(turn(1, answered=False), language="en")

    assert fixed[-1]["tool_call_id"] == "h1"
    assert "interrupted" in fixed[-1]["content"]


def test_an_orphaned_result_is_dropped():
    """A tool message without its call is refused by servers, so it leaves."""
    orphan = {"role": "tool", "tool_call_id": "x", "content": "1"}

    assert repaired([orphan, *turn(1)], language="en") == turn(1)


def test_an_empty_call_list_is_never_sent():
    """`tool_calls: []` is an error for several servers."""
    message = {"role": "assistant", "content": "hi", "tool_calls": []}

    assert repaired([message], language="en") == [{"role": "assistant", "content": "hi"}]


@given(st.integers(0, 8), st.integers(1, 30))
def test_cutting_keeps_whole_turns(turns, at_most):
    """What is left begins with a user message, fits, and is the newest part."""
    messages = [message for number in range(turns) for message in turn(number)]

    kept = cut(messages, at_most=at_most)

    assert len(kept) <= at_most
    assert kept == messages[len(messages) - len(kept) :]
    assert not kept or kept[0]["role"] == "user"
    assert repaired(kept, language="en") == kept
