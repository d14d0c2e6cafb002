"""How many steps a run has taken, how many it may take, and why; read from its journal. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from worker.core.wireformat import rfc3339


def steps_to_wire(events: Iterable[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Write the steps of a run as a JSON object; None before its beginning is journaled.

    `changes` are the later decisions, in order; `max` is the last one's, `reason` that of the first
    and of the last.
    """
    seen: dict[str, Any] | None = None
    first = ""
    for event in events:
        data = event["data"]
        match event["kind"]:
            case "started":
                first = data["max_steps_reason"]
                seen = {"taken": 0, "max": data["max_steps"], "reason": first, "changes": []}
            case "model_replied" if seen is not None:
                seen["taken"] += 1
            case "steps_changed" if seen is not None:
                change = {"max": data["max_steps"], "reason": data["reason"]}
                seen |= {"max": data["max_steps"], "reason": f"{first}; {data['reason']}"}
                seen["changes"].append({"at": rfc3339(data["at"]), **change})
    return seen
