"""Leave out of a reply what could never be sent or stored again: no field is worth a dead run."""

from __future__ import annotations

from typing import Any

from worker.model.jsontext import MAX_DEPTH, depth_exceeds, scrub, travels


def sound(message: dict[str, Any]) -> dict[str, Any]:
    """Return the message fit for the history; at once when it already is.

    Text is scrubbed, fields that are nested too deeply or hold numbers without an exact form are
    left out. Arguments stay as they are: whoever reads them tells the model what is wrong.
    """
    return message if travels(message) else _sound(message)


def _sound(fields: dict[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for key, value in fields.items():
        if key == "arguments":
            kept[key] = value
        elif key == "tool_calls" and isinstance(value, list):
            kept[key] = [_sound(entry) if isinstance(entry, dict) else None for entry in value]
        elif key in ("function", "function_call") and isinstance(value, dict):
            kept[key] = _sound(value)
        elif not depth_exceeds(value, MAX_DEPTH):
            clean = scrub(value)
            if travels(clean):
                kept[scrub(key)] = clean
    return kept
