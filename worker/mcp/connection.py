"""One server, kept connected: listed, called, looked after, and connected to again.

Whoever calls while it is away hears so at once; the guard decides what stands in. The wait before
the next attempt doubles, and begins anew only after the server has been there for longer than the
longest wait, so that one which dies at each start is started ever more seldom.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from worker.core.errors import AttemptFailed, WorkerError
from worker.mcp.faults import ServerAway
from worker.mcp.port import Connect, Hooks, Listed, Session

QUICK_SECONDS = 1.0  # shortest time between two lists that the server asks for; doubles
PROBE_SECONDS = 5.0  # a server that does not answer a ping for so long hangs
REASON_CHARS_MAX = 300


@dataclass(frozen=True, slots=True)
class Pace:
    """How long things may take, and how long to wait before they are tried again."""

    connect_seconds: float = 30.0
    restart_seconds: float = 0.5
    restart_seconds_max: float = 60.0
    probe_seconds: float = PROBE_SECONDS
    relist_seconds: float = QUICK_SECONDS


@dataclass(frozen=True, slots=True)
class Told:
    """Who hears of a connection. `listed` may take its time; `changed(state, reason)` may not.

    States: ready, away. `reason` is empty where the state needs none.
    """

    listed: Callable[[list[Listed]], Awaitable[None]]
    changed: Callable[[str, str], None]
    leave_out: Callable[[str, str], None]
    said: Callable[[str], None]
    garbage: Callable[[str], None]
    started: Callable[[int], None] = lambda _: None
    stopped: Callable[[int], None] = lambda _: None


class Connection:
    """Keeps one session with a server, for as long as `run` runs."""

    def __init__(
        self,
        name: str,
        connect: Connect,
        told: Told,
        *,
        pace: Pace,
        clock: Callable[[], float],
        random: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.name = name
        self.state = "starting"
        self.reason = ""
        self.about = ""
        self.settled = asyncio.Event()  # the first attempt is over, whichever way
        self._connect, self._told, self._pace = connect, told, pace
        self._clock, self._random, self._sleep = clock, random, sleep
        self._session: Session | None = None
        self._again_at: float | None = None
        self._ready_at: float | None = None
        self._heard_at = 0.0
        self._news = asyncio.Event()
        self._ended = self._changed = self._doubted = False

    def __repr__(self) -> str:
        return f"Connection({self.name}, {self.state}{f': {self.reason}' * bool(self.reason)})"

    # --- calls --------------------------------------------------------------------------------

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        """Call a tool by the server's own name for it.

        Raises ServerAway at once without a session, else AttemptFailed or ToolError. Cancelled, as
        by a time limit: the server is told, and whether it still lives is looked at.
        """
        session = self._session
        if session is None:
            raise ServerAway(self._why_away(), retry_after_seconds=self._wait_left())
        began = self._clock()
        try:
            return await session.call(name, arguments)
        except asyncio.CancelledError:
            if self._heard_at <= began:
                self._doubt(session)
            raise
        except AttemptFailed as error:
            if error.kind in ("connection", "timeout"):
                self._doubt(session)
            raise

    def _why_away(self) -> str:
        return f"MCP server {self.name}: {self.reason or 'not connected yet'}"

    def _wait_left(self) -> float | None:
        if self._again_at is None:
            return None
        return max(0.0, self._again_at - self._clock())

    def _doubt(self, session: Session) -> None:
        if session is self._session:
            self._doubted = True
            self._news.set()

    # --- life ---------------------------------------------------------------------------------

    async def run(self) -> None:
        """Keep the server connected until cancelled; then end the session and come back."""
        wait = self._pace.restart_seconds
        while True:
            reason = await self._live()
            if self._lived() >= self._pace.restart_seconds_max:
                wait = self._pace.restart_seconds
            # Half of it by chance: a fleet of workers does not come back in step.
            pause = wait * (0.5 + self._random() / 2)
            self._again_at = self._clock() + pause
            self._away(reason)
            self.settled.set()
            await self._sleep(pause)
            self._again_at = None
            wait = min(wait * 2, self._pace.restart_seconds_max)

    def _lived(self) -> float:
        began, self._ready_at = self._ready_at, None
        return 0.0 if began is None else self._clock() - began

    async def _live(self) -> str:
        """Have one session, from its start to its end; returns why it ended."""
        self._news.clear()
        self._ended = self._changed = self._doubted = False
        hooks = self._hooks()
        try:
            async with contextlib.AsyncExitStack() as stack:
                async with asyncio.timeout(self._pace.connect_seconds):
                    session = await stack.enter_async_context(self._connect(hooks))
                    tools = await session.list_tools()
                await self._told.listed(tools)
                self._is_ready(session)
                reason = await self._watch(session)
                # No new calls from here on; those in flight end with the session.
                self._session = None
                return reason
        except TimeoutError:
            return f"no answer within {self._pace.connect_seconds:g} s"
        except Exception as error:  # a border: a server may fail in any way, and is tried again
            return _words(error)
        finally:
            self._session = None

    def _hooks(self) -> Hooks:
        told = self._told
        return Hooks(
            heard=self._heard,
            ended=self._end,
            changed=self._change,
            leave_out=told.leave_out,
            said=told.said,
            garbage=told.garbage,
            started=told.started,
            stopped=told.stopped,
        )

    def _heard(self) -> None:
        self._heard_at = self._clock()

    def _end(self) -> None:
        self._ended = True
        self._news.set()

    def _change(self) -> None:
        self._changed = True
        self._news.set()

    def _is_ready(self, session: Session) -> None:
        self._session, self._ready_at = session, self._clock()
        self.state, self.reason, self.about = "ready", "", session.about
        self._told.changed("ready", "")
        self.settled.set()

    def _away(self, reason: str) -> None:
        reason, before = reason[:REASON_CHARS_MAX], (self.state, self.reason)
        self.state, self.reason = "away", reason
        if before != ("away", reason):  # told once, however often it is tried again
            self._told.changed("away", reason)

    # --- while it is there --------------------------------------------------------------------

    async def _watch(self, session: Session) -> str:
        """Answer to news until the session has to end; returns why."""
        gap, listed_at = self._pace.relist_seconds, self._clock()
        while True:
            await self._news.wait()
            self._news.clear()
            if self._ended:
                return "it has ended the connection"
            if self._doubted:
                self._doubted = False
                if not await self._is_alive(session):
                    return "it does not answer"
            if self._changed:
                since = self._clock() - listed_at
                # A server may cry wolf at each list; then it is listened to ever more seldom.
                calm = since > self._pace.restart_seconds_max
                gap = self._pace.relist_seconds if calm else gap
                await self._sleep(max(0.0, gap - since))
                gap = min(gap * 2, self._pace.restart_seconds_max)
                self._changed = False
                async with asyncio.timeout(self._pace.connect_seconds):
                    tools = await session.list_tools()
                await self._told.listed(tools)
                listed_at = self._clock()

    async def _is_alive(self, session: Session) -> bool:
        asked = self._clock()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._pace.probe_seconds):
                return await session.is_alive()
        return self._heard_at > asked


def _words(error: BaseException) -> str:
    """What went wrong, without the groups that task groups put around it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, WorkerError):
        return str(error)
    return f"{type(error).__name__}: {error}"
