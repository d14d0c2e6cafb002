"""What the processes that share a queue on RabbitMQ tell each other, for the broker tells nobody.

Each has a queue of its own on one fanout exchange. By it they hear that a task has come, and ask
each other who has a task and how many there are; as many answer as consume from the queue `due`.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable, Coroutine
from typing import Any

from worker.core.errors import QueueUnavailable
from worker.queues.rabbit_calls import Ending, RabbitCalls
from worker.queues.rabbit_link import Connection

ANSWERS_SECONDS = 2.0  # for all answers; who stands still gives none
_RING = b'{"ring":1}'
Answer = dict[str, Any]


class RabbitTalk:
    """One process's ear and mouth. `answer` is asked what others want to know; `rung` is called."""

    def __init__(
        self,
        calls: RabbitCalls,
        exchange: str,
        *,
        answer: Callable[[Answer], Answer],
        rung: Callable[[], None],
    ) -> None:
        self._calls = calls
        self._exchange = exchange
        self._answer = answer
        self._rung = rung
        self._connection: Connection | None = None
        self._own = ""
        self._end: Ending | None = None
        self._numbers = itertools.count(1)
        self._asked: dict[int, tuple[list[Answer], asyncio.Event]] = {}
        self._rings = False
        self._telling: set[asyncio.Task[None]] = set()

    def __repr__(self) -> str:
        return f"RabbitTalk({self._exchange!r}, {self._own!r})"

    async def begin(self, connection: Connection) -> None:
        """Listen, for as long as this connection lives."""
        self._connection = connection
        self._own, self._end = await self._calls.hear(connection, self._exchange, self._heard)

    async def end(self) -> None:
        """Listen no more."""
        if self._end is not None and self._connection is not None and self._connection.lives:
            await self._end()

    def ring(self) -> None:
        """Tell everybody, in a moment, that a task may have come: once for all that come till then."""
        if not self._rings:
            self._rings = True
            self._begin(self._ring())

    async def _ring(self) -> None:
        self._rings = False
        if self._connection is None:
            return
        try:
            await self._calls.tell(self._connection, _RING, exchange=self._exchange)
        except QueueUnavailable:
            return  # who waits looks again before long

    async def ask(self, connection: Connection, question: Answer, *, members: int) -> list[Answer]:
        """Ask everybody, also oneself, and wait for so many answers."""
        number, event = next(self._numbers), asyncio.Event()
        answers: list[Answer] = []
        self._asked[number] = answers, event
        said = json.dumps({"ask": question, "to": self._own, "number": number}).encode()
        ends = asyncio.get_running_loop().time() + ANSWERS_SECONDS
        try:
            await self._calls.tell(connection, said, exchange=self._exchange)
            async with asyncio.timeout_at(ends):
                while len(answers) < members:
                    event.clear()
                    await event.wait()
        except TimeoutError:
            pass  # what the others know has to do
        finally:
            del self._asked[number]
        return answers

    def _heard(self, raw: bytes) -> None:
        said = json.loads(raw)
        if "ring" in said:
            self._rung()
        elif "ask" in said:
            answer = {"number": said["number"], "answer": self._answer(said["ask"])}
            self._begin(self._reply(said["to"], json.dumps(answer).encode()))
        elif said["number"] in self._asked:
            answers, event = self._asked[said["number"]]
            answers.append(said["answer"])
            event.set()

    def _begin(self, telling: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(telling)
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def _reply(self, queue: str, raw: bytes) -> None:
        if self._connection is None:
            return
        try:
            await self._calls.tell(self._connection, raw, queue=queue)
        except QueueUnavailable:
            return  # whoever asked does not hear of us
