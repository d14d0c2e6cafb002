"""What a connection needs from a server, however it is reached."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Listed:
    """A tool as its server lists it. The hints are what the server says of itself."""

    name: str
    description: str
    schema: Any
    read_only: bool | None = None
    idempotent: bool | None = None


class Session(Protocol):
    """A server that can be asked. What is raised is AttemptFailed or ToolError."""

    @property
    def about(self) -> str:
        """The server's name and version, for people."""
        ...

    async def list_tools(self) -> list[Listed]:
        """All tools of the server. Cancelled: nothing is left behind."""
        ...

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        """Call a tool. Cancelled: the server is told so, and may go on all the same."""
        ...

    async def is_alive(self) -> bool:
        """Whether the server answers at all. Cancelled: as if it did not."""
        ...


@dataclass(frozen=True, slots=True)
class Hooks:
    """Who hears of what happens on a connection. None of them waits, and none raises.

    `heard`: a message came. `ended`: no more will come. `changed`: the tools are others now.
    `leave_out(name, fault)`: a tool has no form that can be used. `said(line)`: a line on standard
    error. `garbage(line)`: output that is no message. `started(pid)`, `stopped(pid)`: a process.
    """

    heard: Callable[[], None]
    ended: Callable[[], None]
    changed: Callable[[], None]
    leave_out: Callable[[str, str], None]
    said: Callable[[str], None]
    garbage: Callable[[str], None]
    started: Callable[[int], None] = lambda _: None
    stopped: Callable[[int], None] = lambda _: None


Connect = Callable[[Hooks], AbstractAsyncContextManager[Session]]
