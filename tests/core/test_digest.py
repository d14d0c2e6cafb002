"""Digests of calls."""

from __future__ import annotations

from worker.core.digest import arguments_hash, idempotency_key


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
