"""What the demo shows: a listener that writes the signals of the worker as lines for a newcomer."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from worker.core.limits import final_status
from worker.telemetry.signals import (
    BreakerChanged,
    FallbackUsed,
    ModelCall,
    Operation,
    RetryScheduled,
    RunLoop,
    Signal,
    ToolCalling,
)
from worker.telemetry.tell import SCOPE

Paint = Callable[[str, str], str]
_BREAKER_COLOURS = {"open": "red", "half_open": "yellow", "closed": "green"}


class Display:
    """Hears every signal, writes some of them, and keeps what the summary needs."""

    def __init__(self, write: Callable[[str], None], paint: Paint) -> None:
        self.write = write
        self.paint = paint
        self.labels: dict[str, str] = {}  # task id -> what the story calls it
        self.tools: dict[str, str] = {}  # dependency -> the tool a newcomer knows
        self.transitions: list[tuple[str, str, str]] = []
        self.retries = 0
        self._began = time.monotonic()

    # --- as a person in front of the stage ------------------------------------------------------

    def act(self, title: str, text: str) -> None:
        """Open an act of the demo."""
        self.write("")
        self.write(self.paint(f"── {title} ", "bold") + self.paint("─" * 40, "dim"))
        self.write(self.paint(f"   {text}", "dim"))

    def submitted(self, task_id: str, label: str, text: str) -> None:
        """Show a task that was handed in."""
        self.labels[task_id] = label
        self.line(label, self.paint(f"{'task':<9}", "cyan") + text)

    def answered(self, label: str, status: str, answer: str) -> None:
        """Show an answer."""
        colour = "green" if final_status(status) == "success" else "red"
        first, *rest = answer.splitlines() or ["(no text)"]
        self.line(label, self.paint(f"{'answer':<9}", colour) + first)
        for more in rest:
            self.line("", " " * 9 + more)

    def line(self, label: str, text: str) -> None:
        """Write one line of the story."""
        seconds = time.monotonic() - self._began
        self.write(f"{self.paint(f'{seconds:6.2f}s', 'dim')} {label:<3} {text}")

    # --- as a listener --------------------------------------------------------------------------

    def told(self, signal: Signal) -> None:
        """Show a point in time."""
        match signal:
            case BreakerChanged():
                self._breaker(signal)
            case RetryScheduled():
                self.retries += 1
                wait = f"again in {signal.wait_seconds:.2f} s"
                self._say("retry", "yellow", f"{signal.target}: {signal.reason}; {wait}")
            case FallbackUsed(kind="model"):
                self._say(
                    "moved", "yellow", f"{signal.target} → {signal.fallback}: {signal.reason}"
                )
            case FallbackUsed(outcome="success"):
                what = f"{signal.target}: {signal.fallback} instead of a live value"
                self._say("degraded", "yellow", f"{what} ({signal.reason})")
            case _:
                return

    def started(self, operation: Operation) -> None:
        """Show what begins."""
        match operation:
            case RunLoop(resumed=False):
                self._say("start", "dim", "taken from the queue, journal opened")
            case ToolCalling():
                self._say("call", "dim", f"{operation.tool_name} …")
            case _:
                return

    def settled(self, operation: Operation, token: Any) -> None:
        """Show how it ended."""
        took = f"{operation.duration_seconds * 1000:.0f} ms"
        match operation:
            case ModelCall():
                wants = operation.finish_reason or operation.error_type or "?"
                self._say("model", "dim", f"replied ({wants}) in {took}")
            case ToolCalling():
                colour = "dim" if operation.source == "live" else "yellow"
                self._say("tool", colour, f"{operation.tool_name}: {operation.source} in {took}")
            case _:
                return

    def _breaker(self, change: BreakerChanged) -> None:
        self.transitions.append((change.breaker, change.from_state, change.to_state))
        colour = _BREAKER_COLOURS.get(change.to_state, "bold")
        name = f"{change.breaker} ({self.tools.get(change.breaker, 'model')})"
        text = f"{name}: {change.from_state} → {change.to_state} ({change.cause})"
        if change.open_seconds and change.to_state == "open":
            text += f"; calls are rejected for {change.open_seconds:.1f} s"
        self._say("breaker", colour, text)

    def _say(self, word: str, colour: str, text: str) -> None:
        label = self.labels.get(SCOPE.get().task_id or "", "")
        self.line(label, self.paint(f"{word:<9}", colour) + text)
