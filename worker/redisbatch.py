"""Calls to a server that go out together: what is asked for while one is under way waits for the next.

A call costs far more in this process than on the server (a connection to take and give back, a write,
a read, a timer): together they cost it once. One alone goes at once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Generic, TypeVar

CALLS_MAX = 64  # in one batch: whoever is behind a slow one waits for it
AT_ONCE = 2  # batches under way, so that the server need not wait for us

Call = TypeVar("Call")


class Batches(Generic[Call]):
    """Makes batches of the calls of one event loop.

    `send` makes some calls, and returns for each its answer or the exception that is to be raised.
    What it raises itself is raised to all of them.
    """

    def __init__(
        self,
        send: Callable[[Sequence[Call]], Coroutine[Any, Any, Sequence[Any]]],
        *,
        calls_max: int = CALLS_MAX,
        at_once: int = AT_ONCE,
    ) -> None:
        self._send = send
        self._calls_max = calls_max
        self._at_once = at_once
        self._waiting: deque[tuple[Call, asyncio.Future[Any]]] = deque()
        self._under_way: dict[asyncio.Task[Sequence[Any]], list[asyncio.Future[Any]]] = {}

    def __repr__(self) -> str:
        return f"Batches({len(self._waiting)} calls wait, {len(self._under_way)} batches under way)"

    def begin(self, call: Call) -> asyncio.Future[Any]:
        """Have a call made; the future is its answer. Cancelled: it was made, or never will be."""
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append((call, answer))
        if len(self._under_way) < self._at_once:
            self._begin()
        return answer

    async def close(self) -> None:
        """Give up what is asked for; whoever waits for it gets ConnectionAbortedError."""
        self._at_once = 0
        while self._waiting:
            _tell(self._waiting.popleft()[1], _closed())
        for task in self._under_way:
            task.cancel()
        if self._under_way:
            await asyncio.wait(list(self._under_way))

    def _begin(self) -> None:
        answers: list[asyncio.Future[Any]] = []
        # It runs with the next turn of the loop, and takes what has been asked for by then.
        task = asyncio.create_task(self._make(answers))
        self._under_way[task] = answers
        task.add_done_callback(self._settle)

    async def _make(self, answers: list[asyncio.Future[Any]]) -> Sequence[Any]:
        calls: list[Call] = []
        while self._waiting and len(calls) < self._calls_max:
            call, answer = self._waiting.popleft()
            if not answer.done():  # else nobody waits for it any more
                calls.append(call)
                answers.append(answer)
        return await self._send(calls) if calls else ()

    def _settle(self, task: asyncio.Task[Sequence[Any]]) -> None:
        answers = self._under_way.pop(task)
        if self._waiting and len(self._under_way) < self._at_once:
            self._begin()
        error = _closed() if task.cancelled() else task.exception()
        found = [error] * len(answers) if error is not None else task.result()
        for answer, told in zip(answers, found, strict=True):
            _tell(answer, told)


def _tell(answer: asyncio.Future[Any], told: Any) -> None:
    if answer.done():
        return
    if isinstance(told, BaseException):
        answer.set_exception(told)
        answer.exception()  # whoever asked may have gone meanwhile
    else:
        answer.set_result(told)


def _closed() -> ConnectionAbortedError:
    return ConnectionAbortedError("the connection was closed here")
