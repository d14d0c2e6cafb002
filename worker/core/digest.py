"""Digests of calls: what tells two calls apart, and what makes a repeated effect recognisable."""

from __future__ import annotations

import hashlib
import json
from typing import Any

# json.dumps would build such an encoder for every call.
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def canonical(arguments: dict[str, Any] | None) -> str:
    """Arguments as the JSON text that is digested."""
    return _CANONICAL.encode(arguments)


def arguments_hash(arguments: dict[str, Any] | None) -> str:
    """Digest arguments: `sha256:` and 16 hex digits over canonical JSON (telemetry.md 5.3).

    The same arguments in another key order give the same digest.
    """
    text = _CANONICAL.encode(arguments)
    return "sha256:" + hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


def idempotency_key(task_id: str, step: int, call_id: str) -> str:
    """The key that an effect is repeated with: stable, because the reply is journaled first."""
    return hashlib.sha256(f"{task_id}|{step}|{call_id}".encode("utf-8", "replace")).hexdigest()
