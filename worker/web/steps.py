"""Journal events as the lines a watcher reads: what happens now, in the language of the question.

Pure. Used by the event stream of the API and by `loopworker watch`. One event gives at most one
line, so the sequence of the journal numbers the lines, and a watcher that lost its connection goes
on where it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from worker.core.task import Result
from worker.core.texts import (
    PARKED_FOR,
    PROGRESS_APPROVED,
    PROGRESS_ASKED,
    PROGRESS_AWAY,
    PROGRESS_BACK,
    PROGRESS_DEGRADED,
    PROGRESS_DENIED,
    PROGRESS_DONE,
    PROGRESS_ENDED,
    PROGRESS_ERROR,
    PROGRESS_HANDED_OFF,
    PROGRESS_JOB,
    PROGRESS_MODEL_FAILED,
    PROGRESS_PARKED,
    PROGRESS_RESUMED,
    PROGRESS_SHORTENED,
    PROGRESS_STARTED,
    PROGRESS_STEPS,
    PROGRESS_TOOL,
    language_of,
)

_LIVE = "live"


@dataclass(frozen=True, slots=True)
class StepUpdate:
    """One line for a watcher; `seq` is what Last-Event-ID holds."""

    seq: int
    content: str
    is_final: bool = False

    def to_wire(self) -> dict[str, Any]:
        """Write it as the JSON object of the event stream."""
        return {
            "event": "step_update",
            "step_id": self.seq,
            "content": self.content,
            "is_final": self.is_final,
        }


class Narrator:
    """Folds the events of one run, from its first on, into lines.

    It has to be told of every event, also of those that the watcher has seen: the language of the
    run and the names of its calls are in them.
    """

    def __init__(self) -> None:
        self.next_seq = 0
        self._language = "en"
        self._tools: dict[str, str] = {}

    def tell(self, events: Iterable[Mapping[str, Any]]) -> list[StepUpdate]:
        """Return the lines of these events, which follow those told before."""
        updates = []
        for event in events:
            self.next_seq = event["seq"] + 1
            content = self._line(event["kind"], event["data"])
            if content:
                updates.append(StepUpdate(event["seq"], content))
        return updates

    def end(self, result: Result) -> StepUpdate:
        """Return the last line: the answer, or why there is none. Its number follows all events."""
        content = result.answer
        if not content:
            language = self._language if self.next_seq else language_of(result.error or "")
            content = PROGRESS_ENDED[language].format(status=result.status)
            content += f" ({result.error})" if result.error else ""
        return StepUpdate(self.next_seq, content, is_final=True)

    def _line(self, kind: str, data: Mapping[str, Any]) -> str | None:
        match kind:
            case "started":
                self._language = data["language"] if data["language"] == "zh" else "en"
                return PROGRESS_STARTED[self._language]
            case "model_replied":
                return self._calls(data["reply"])
            case "model_failed":
                return PROGRESS_MODEL_FAILED[self._language].format(status=data["status"])
            case "tool_returned":
                return self._returned(data["call_id"], data["observation"])
            case "history_cut":
                return PROGRESS_SHORTENED[self._language].format(turns=data["turns"])
            case "steps_changed":
                return PROGRESS_STEPS[self._language].format(steps=data["max_steps"])
            case "tools_changed":
                return self._away(data["away"])
            case "handed_off":
                return PROGRESS_HANDED_OFF[self._language].format(reason=data["reason"])
            case "approval_asked":
                return self._of_call(PROGRESS_ASKED, data)
            case "decided":
                text = PROGRESS_APPROVED if data["approved"] else PROGRESS_DENIED
                return self._of_call(text, data, by=data.get("by") or "?")
            case "job_started":
                return self._of_call(PROGRESS_JOB, data)
            case "parked":
                reason = PARKED_FOR[self._language].get(data["reason"], data["reason"])
                return PROGRESS_PARKED[self._language].format(reason=reason)
            case "resumed":
                return PROGRESS_RESUMED[self._language].format(delivery=data.get("delivery", "?"))
            case _:
                return None  # a newer worker may know more kinds than we do

    def _of_call(self, text: Mapping[str, str], data: Mapping[str, Any], **more: str) -> str:
        tool = self._tools.get(data["call_id"], data["call_id"])
        return text[self._language].format(tool=tool, **more)

    def _calls(self, reply: Mapping[str, Any]) -> str | None:
        calls = reply.get("calls") or ()
        self._tools.update({call["id"]: call["name"] for call in calls})
        lines = [PROGRESS_TOOL[self._language].format(tool=call["name"]) for call in calls]
        return "\n".join(lines) or None

    def _away(self, away: Iterable[Mapping[str, Any]]) -> str | None:
        tools = ", ".join(each["tool"] for each in away if not each.get("offered"))
        if tools:
            return PROGRESS_AWAY[self._language].format(tools=tools)
        return PROGRESS_BACK[self._language] if not away else None

    def _returned(self, call_id: str, observation: Mapping[str, Any]) -> str:
        tool = self._tools.get(call_id, call_id)
        source = observation.get("source", _LIVE)
        if source == _LIVE:
            return PROGRESS_DONE[self._language].format(tool=tool)
        reason = observation.get("reason") or observation.get("error_type") or source
        if source == "error" and not observation.get("dependency_failed"):
            # A mistake of the model, or the tool's own word: the result is not degraded by it.
            return PROGRESS_ERROR[self._language].format(tool=tool, reason=reason)
        stub = observation.get("stub")
        text = PROGRESS_DEGRADED[self._language].format(tool=tool, reason=f"{source}, {reason}")
        return f"{text} — {stub}" if stub and source == "stub" else text
