"""tell(signal), watch(operation); a listener can never hurt the caller.

The object below is handed to whoever has something to tell (runner, guard, port wrappers). Core
and adapters know nothing of it. Listeners are called in the caller's thread and must be quick and
never wait; one that raises is counted and otherwise ignored.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from worker.telemetry.signals import Operation, RunLoop, Signal, TaskProcessing

Watched = TypeVar("Watched", bound=Operation)


@dataclass(frozen=True, slots=True)
class Scope:
    """The ids that every line told inside a task carries."""

    task_id: str | None = None
    session_id: str | None = None
    loop_id: str | None = None  # one execution of the loop: task id and delivery


SCOPE: ContextVar[Scope] = ContextVar("loopworker_scope", default=Scope())  # noqa: B039  (frozen)


class Listener(Protocol):
    """One carrier of signals: logs, spans, metrics, progress, a test."""

    def told(self, signal: Signal) -> None:
        """Take note of a point in time."""
        ...

    def started(self, operation: Operation) -> Any:
        """Take note that an operation began; what is returned comes back to `settled`."""
        ...

    def settled(self, operation: Operation, token: Any) -> None:
        """Take note that an operation ended. Called exactly once for each `started`."""
        ...


class Telemetry:
    """The one place that signals go to, and the order in which listeners hear them.

    Spans come first: their context must stand when the log line of the same operation is written.
    At the end the order is reversed.
    """

    def __init__(self, listeners: Sequence[Listener] = ()) -> None:
        self.listeners: tuple[Listener, ...] = tuple(listeners)
        self.listener_errors = 0
        # Filled by telemetry/spans.py; without spans nothing is handed on.
        self.trace_headers: Callable[[], dict[str, str]] = dict
        self.trace_id: Callable[[], str | None] = lambda: None

    def __repr__(self) -> str:
        names = ", ".join(type(listener).__name__ for listener in self.listeners)
        return f"Telemetry({names}; {self.listener_errors} listener errors)"

    def tell(self, signal: Signal) -> None:
        """Pass a signal to every listener. Never raises."""
        for listener in self.listeners:
            try:
                listener.told(signal)
            except Exception:
                self.listener_errors += 1

    @contextmanager
    def watch(self, operation: Watched) -> Iterator[Watched]:
        """Tell the start and the end of an operation; the body fills in what it learns.

        An exception passes through: `error_type` becomes `cancelled` or, if the body has not set a
        better word, `internal`. The end is told exactly once, whatever happens.
        """
        began = time.perf_counter()
        outer = _enter_scope(operation)
        tokens = [self._started(listener, operation) for listener in self.listeners]
        try:
            yield operation
        except BaseException as error:
            if operation.error_type is None:
                cancelled = isinstance(error, asyncio.CancelledError | GeneratorExit)
                operation.error_type = "cancelled" if cancelled else "internal"
                operation.error = operation.error or type(error).__name__
            raise
        finally:
            operation.duration_seconds = time.perf_counter() - began
            for listener, token in zip(reversed(self.listeners), reversed(tokens), strict=True):
                try:
                    listener.settled(operation, token)
                except Exception:
                    self.listener_errors += 1
            if outer is not None:
                SCOPE.reset(outer)

    def _started(self, listener: Listener, operation: Operation) -> Any:
        try:
            return listener.started(operation)
        except Exception:
            self.listener_errors += 1
            return None


def _enter_scope(operation: Operation) -> Any:
    if isinstance(operation, TaskProcessing):
        loop_id = f"{operation.task_id}#{operation.delivery}"
        return SCOPE.set(Scope(operation.task_id, operation.session_id, loop_id))
    if isinstance(operation, RunLoop):
        loop_id = SCOPE.get().loop_id or operation.task_id
        return SCOPE.set(Scope(operation.task_id, operation.session_id, loop_id))
    return None
