"""Digests of calls."""

from __future__ import annotations

from dataclasses import fields, replace

from worker.core.digest import arguments_hash, idempotency_key
from worker.core.messages import ToolCall


def test_key_order_does_not_matter():
    """The same arguments in another order have the same digest, other arguments another."""
    first, second = {"a": 1, "b": [1, {"x": "é"}]}, {"b": [1, {"x": "é"}], "a": 1}

    assert arguments_hash(first) == arguments_hash(second)
    assert arguments_hash(first) != arguments_hash({"a": 2})
    assert arguments_hash(first).startswith("sha256:")
    assert len(arguments_hash(first)) == len("sha256:") + 16


def test_the_key_depends_on_task_step_and_call():
    """Two calls never share a key, one call always has the same."""
    keys = {idempotency_key(t, s, c) for t in "ab" for s in (1, 2) for c in "xy"}

    assert len(keys) == 8
    assert idempotency_key("a", 1, "x") in keys


def test_a_call_keeps_the_digest_of_what_was_asked():
    """The digest of a call is worked out once, and is no part of what is compared or stored."""
    call, twin = (ToolCall("c1", "look_up", {"key": ["a"]}) for _ in range(2))
    asked = call.digest

    assert asked == arguments_hash({"key": ["a"]})
    assert call.arguments is not None
    call.arguments["key"].append("b")  # as a careless tool does

    assert call.digest == asked
    assert ToolCall("c1", "look_up", {"key": ["a", "b"]}).digest != asked
    assert [field.name for field in fields(call)] == [field.name for field in fields(twin)]
    assert "digest" not in repr(call)
    assert replace(twin, arguments={}).digest == arguments_hash({})
