"""A server that does what a test tells it, and a connection to it under a clock that stands still."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from worker.core.errors import AttemptFailed
from worker.mcp.connection import Connection, Pace, Told
from worker.mcp.port import Hooks, Listed

ECHO = Listed("echo", "Say it again.", {"type": "object"})


class FakeServer:
    """Stands for a server: `refuses` is raised at the next connects, `tools` are what it lists."""

    def __init__(self, *tools: Listed) -> None:
        self.tools = list(tools or [ECHO])
        self.refuses: Exception | None = None
        self.hangs_at_start = False
        self.is_deaf = False
        self.opened = 0
        self.lists = 0
        self.pings = 0
        self.calls: list[str] = []
        self.closed = asyncio.Event()
        self.hooks: Hooks | None = None
        self.answer: Callable[[str, dict[str, Any]], Awaitable[Any]] | None = None

    @contextlib.asynccontextmanager
    async def connect(self, hooks: Hooks) -> AsyncIterator[FakeServer]:
        """Take a connection."""
        self.opened += 1
        if self.refuses is not None:
            raise self.refuses
        if self.hangs_at_start:
            await asyncio.Event().wait()
        self.hooks, self.closed = hooks, asyncio.Event()
        try:
            yield self
        finally:
            self.closed.set()

    about = "fake 1.0"

    async def list_tools(self) -> list[Listed]:
        """List the tools."""
        self.lists += 1
        return list(self.tools)

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        """Answer, or end with the connection."""
        self.calls.append(name)
        assert self.hooks is not None
        answering = asyncio.create_task(self._answered(name, arguments))
        ending = asyncio.create_task(self.closed.wait())
        try:
            await asyncio.wait([answering, ending], return_when=asyncio.FIRST_COMPLETED)
            if not answering.done():
                raise AttemptFailed("Connection closed", kind="connection")
            self.hooks.heard()
            return answering.result()
        finally:
            answering.cancel()
            ending.cancel()

    async def is_alive(self) -> bool:
        """Answer a ping, unless it is deaf."""
        self.pings += 1
        if self.is_deaf:
            await asyncio.Event().wait()
        return True

    async def silence(self, name: str, arguments: dict[str, Any]) -> None:
        """Be an `answer` that never comes."""
        await asyncio.Event().wait()

    def die(self) -> None:
        """End the connection."""
        assert self.hooks is not None
        self.hooks.ended()

    def change(self, *tools: Listed) -> None:
        """Have other tools, and say so."""
        self.tools = list(tools)
        assert self.hooks is not None
        self.hooks.changed()

    async def _answered(self, name: str, arguments: dict[str, Any]) -> Any:
        if self.answer is None:
            return arguments.get("text", "done")
        return await self.answer(name, arguments)


class Rig:
    """A connection whose sleeps end when the test says so."""

    def __init__(self, server: FakeServer, **pace: float) -> None:
        self.server = server
        self.now, self.chance = 100.0, 1.0
        self.sleeps: list[float] = []
        self.lists: list[list[str]] = []
        self.states: list[tuple[str, str]] = []
        self._awake: asyncio.Queue[None] = asyncio.Queue()
        told = Told(
            listed=self._listed,
            changed=lambda state, reason: self.states.append((state, reason)),
            leave_out=lambda name, fault: None,
            said=lambda line: None,
            garbage=lambda line: None,
        )
        self.connection = Connection(
            "fake",
            server.connect,
            told,
            pace=Pace(**pace),
            clock=lambda: self.now,
            random=lambda: self.chance,
            sleep=self._sleep,
        )
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Rig:
        self._task = asyncio.create_task(self.connection.run())
        await self.until(self.connection.settled.is_set)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.wait([self._task])

    async def calling(self, name: str) -> asyncio.Task[Any]:
        """Call a tool of a server that does not answer; return when the call has arrived."""
        self.server.answer = self.server.silence
        call = asyncio.create_task(self.connection.call(name, {}))
        await self.until(lambda: self.server.calls)
        return call

    async def give_up(self, name: str) -> None:
        """Call a tool of a server that does not answer, as a time limit ends it."""
        call = await self.calling(name)
        call.cancel()
        await asyncio.wait([call])
        assert call.cancelled()
        self.server.answer = None

    def wake(self) -> None:
        """End the sleep that goes on; its time has passed."""
        self.now += self.sleeps[-1]
        self._awake.put_nowait(None)

    async def until(self, holds: Callable[[], object]) -> None:
        """Let others run until it holds."""
        await until(holds)

    async def _sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        await self._awake.get()

    async def _listed(self, listed: list[Listed]) -> None:
        self.lists.append([each.name for each in listed])


async def until(holds: Callable[[], object]) -> None:
    """Let others run until it holds; what never does is a failure of the test."""
    async with asyncio.timeout(5):
        while not holds():  # noqa: ASYNC110  (many kinds of conditions)
            await asyncio.sleep(0)
