"""The conversation as the model sees it: grows by what is new, pairs every call with its result."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from worker.core.messages import Message, Observation, ToolCall


class Transcript:
    """Messages in order. Sealed messages never change, so that each is encoded only once.

    Notes to the model ride on the system message or on the last tool result, never in a `user`
    message after `tool`: some servers refuse that order (models.md E13).
    """

    def __init__(self, system: str, history: Iterable[dict[str, Any]], question: str) -> None:
        self._system = system
        self._system_message = Message({"role": "system", "content": system})
        self._sealed = [Message(body) for body in history]
        self._before = len(self._sealed)  # how many of them were there before the run
        self._sealed.append(Message({"role": "user", "content": question}))
        self._results: list[dict[str, Any]] = []
        self._notes: list[str] = []

    def shorten(self, history: Iterable[dict[str, Any]]) -> None:
        """Put another history into the place of the one that the run began with."""
        kept = [Message(body) for body in history]
        self._sealed[: self._before] = kept
        self._before = len(kept)

    def turn(self, message: dict[str, Any]) -> None:
        """Add the model's message with calls; its results have to follow before the next turn."""
        self._seal()
        self._sealed.append(Message(message))

    def result(self, call: ToolCall, observation: Observation) -> None:
        """Add the result of one call, in call order."""
        self._results.append(
            {"role": "tool", "tool_call_id": call.id, "content": observation.content}
        )

    def note(self, text: str, *, lasting: bool = False) -> None:
        """Tell the model something with the next request.

        `lasting` stays in the history also where there is no result that it could ride on: what
        was said once need not be said again, and later requests begin like this one.
        """
        if lasting and not self._results:
            self._system = f"{self._system}\n{text}"
            self._system_message = Message({"role": "system", "content": self._system})
        elif text not in self._notes:
            self._notes.append(text)

    def messages(self, *, passing_note: str | None = None) -> list[Message]:
        """All messages for the next request; `passing_note` goes with this request only."""
        notes = [*self._notes, passing_note] if passing_note else self._notes
        system, results = self._system_message, self._results
        if notes and results:
            last = results[-1]
            text = "\n".join([last["content"], *notes])
            results = [*results[:-1], {**last, "content": text}]
        elif notes:
            system = Message({"role": "system", "content": "\n".join([self._system, *notes])})
        return [system, *self._sealed, *map(Message, results)]

    def _seal(self) -> None:
        # What the model was told stays in the history as it was told, notes included.
        if self._notes and self._results:
            last = self._results[-1]
            last["content"] = "\n".join([last["content"], *self._notes])
        self._notes = []
        self._sealed += map(Message, self._results)
        self._results = []
