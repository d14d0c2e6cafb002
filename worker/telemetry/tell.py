"""tell(signal), watch(operation); a listener can never hurt the caller.

The object below is handed to whoever has something to tell (runner, guard, port wrappers). Core
and adapters know nothing of it. Listeners are called in the caller's thread and must be quick and
never wait; one that raises is counted and otherwise ignored. A worker tells some fifty things in
each loop, so who wants to hear what is asked once for each kind.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar

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
    """One carrier of signals: logs, spans, metrics, progress, a test.

    It may have a method `hears(kind: type) -> bool`; a kind that it refuses is never told to it.
    """

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
        self.listeners = listeners
        self.listener_errors = 0
        # Filled by telemetry/spans.py; without spans nothing is handed on.
        self.trace_headers: Callable[[], dict[str, str]] = dict
        self.trace_id: Callable[[], str | None] = lambda: None

    def __repr__(self) -> str:
        names = ", ".join(type(listener).__name__ for listener in self.listeners)
        return f"Telemetry({names}; {self.listener_errors} listener errors)"

    @property
    def listeners(self) -> tuple[Listener, ...]:
        """Who is told, in the order of the beginnings."""
        return self._listeners

    @listeners.setter
    def listeners(self, listeners: Iterable[Listener]) -> None:
        self._listeners = tuple(listeners)
        self._hearing: dict[type, tuple[Listener, ...]] = {}

    def tell(self, signal: Signal) -> None:
        """Pass a signal to every listener. Never raises."""
        for listener in self.hearing(type(signal)):
            try:
                listener.told(signal)
            except Exception:
                self.listener_errors += 1

    def watch(self, operation: Watched) -> Watch[Watched]:
        """Tell the start and the end of an operation; the body fills in what it learns.

        An exception passes through: `error_type` becomes `cancelled` or, if the body has not set a
        better word, `internal`. The end is told exactly once, whatever happens.
        """
        return Watch(self, operation)

    def hearing(self, kind: type) -> tuple[Listener, ...]:
        """Who wants to hear of a kind of signal or operation."""
        hearing = self._hearing.get(kind)
        if hearing is None:
            hearing = self._hearing[kind] = tuple(
                listener for listener in self._listeners if _hears(listener, kind)
            )
        return hearing


class Watch(Generic[Watched]):
    """One operation under watch; see `Telemetry.watch`. For one `with` only."""

    __slots__ = ("_began", "_hearing", "_operation", "_outer", "_telemetry", "_tokens")

    def __init__(self, telemetry: Telemetry, operation: Watched) -> None:
        self._telemetry = telemetry
        self._operation = operation

    def __enter__(self) -> Watched:
        operation, telemetry = self._operation, self._telemetry
        self._began = time.perf_counter()
        self._outer = _enter_scope(operation)
        # Whoever heard the start hears the end, even if the listeners change meanwhile.
        self._hearing = telemetry.hearing(type(operation))
        self._tokens: list[Any] = []
        for listener in self._hearing:
            try:
                token = listener.started(operation)
            except Exception:
                telemetry.listener_errors += 1
                token = None
            self._tokens.append(token)
        return operation

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        operation = self._operation
        if error is not None and operation.error_type is None:
            cancelled = isinstance(error, asyncio.CancelledError | GeneratorExit)
            operation.error_type = "cancelled" if cancelled else "internal"
            operation.error = operation.error or type(error).__name__
        operation.duration_seconds = time.perf_counter() - self._began
        for listener in reversed(self._hearing):
            try:
                listener.settled(operation, self._tokens.pop())
            except Exception:
                self._telemetry.listener_errors += 1
        if self._outer is not None:
            SCOPE.reset(self._outer)


def _hears(listener: Listener, kind: type) -> bool:
    hears: Callable[[type], bool] | None = getattr(listener, "hears", None)
    return hears is None or hears(kind)


def _enter_scope(operation: Operation) -> Any:
    if type(operation) is TaskProcessing:
        loop_id = f"{operation.task_id}#{operation.delivery}"
        return SCOPE.set(Scope(operation.task_id, operation.session_id, loop_id))
    if type(operation) is RunLoop:
        loop_id = SCOPE.get().loop_id or operation.task_id
        return SCOPE.set(Scope(operation.task_id, operation.session_id, loop_id))
    return None
