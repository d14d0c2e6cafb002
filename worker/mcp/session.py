"""One conversation with a server, by way of the official SDK.

What the SDK raises stays in here: whoever calls sees errors that the guard can rule on.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import anyio
from mcp import ClientSession, MCPError
from mcp.client.subscriptions import listen
from mcp_types import Implementation, PaginatedRequestParams, ToolListChangedNotification
from pydantic import ValidationError

from worker.core.errors import AttemptFailed, ToolError
from worker.mcp.child import Launch, child
from worker.mcp.faults import CONNECTION_CLOSED, HTTP_FAILED, REQUEST_TIMEOUT, fault_of
from worker.mcp.port import Hooks, Listed
from worker.mcp.results import value_of
from worker.mcp.streamable import Address, streamable
from worker.mcp.streams import Sifted

PAGES_MAX = 50
# The SDK logs what goes wrong, which we tell in our own words; where no log is set up, Python would
# print it on the terminal.
for _name in ("mcp", "client", "httpx2"):
    logging.getLogger(_name).addHandler(logging.NullHandler())
_GONE = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream)
_NOT_AN_ANSWER = frozenset({CONNECTION_CLOSED, HTTP_FAILED, REQUEST_TIMEOUT})


@contextlib.asynccontextmanager
async def open_session(
    where: Launch | Address, hooks: Hooks, *, version: str, tools_max: int
) -> AsyncIterator[Session]:
    """Start the server or reach it, shake hands, and give the session.

    Raises LaunchFailed, AttemptFailed, ToolError, or groups of them. Cancelled, or left: a process
    is ended, a session over HTTP is said goodbye to; every wait for that is bounded.
    """
    if isinstance(where, Launch):
        opened = child(where, hooks)
    else:
        opened = streamable(where)
    async with opened as (incoming, outgoing):
        sifted = Sifted(incoming, heard=hooks.heard, ended=hooks.ended, leave_out=hooks.leave_out)
        client = ClientSession(
            sifted,
            outgoing,
            message_handler=_news(hooks.changed),
            client_info=Implementation(name="loopworker", version=version),
        )
        async with client:
            session = Session(client, tools_max=tools_max)
            await session.shake_hands()
            async with session.listening():
                yield session


def _news(changed: Callable[[], None]) -> Any:
    async def handle(message: Any) -> None:
        if isinstance(message, ToolListChangedNotification):
            changed()

    return handle


@dataclass(slots=True)
class Session:
    """A server that has shaken hands."""

    client: ClientSession
    tools_max: int

    async def shake_hands(self) -> None:
        """Agree on a version: as all servers did for years, else as those of 2026 do."""
        with _faults():
            try:
                await self.client.initialize()
            except MCPError as error:
                if error.code in _NOT_AN_ANSWER:
                    raise
                await self.client.discover()

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """Have servers tell of changed tools that want to be asked for that."""
        if self.client.discover_result is None:
            yield
            return
        async with anyio.create_task_group() as group:
            group.start_soon(self._listen)
            yield
            group.cancel_scope.cancel()

    async def _listen(self) -> None:
        # One that cannot do it, or stops doing it, is a server whose tools do not change.
        with contextlib.suppress(MCPError, RuntimeError, TimeoutError, *_GONE):
            async with listen(self.client, tools_list_changed=True) as events:
                async for _ in events:
                    pass  # it comes as a notification as well, like that of any server

    @property
    def about(self) -> str:
        """The name and version that the server gives itself, and the protocol's."""
        info = self.client.server_info
        name = f"{info.name} {info.version}".strip() if info is not None else "nameless"
        return f"{name[:100]}, protocol {self.client.protocol_version}"

    async def list_tools(self) -> list[Listed]:
        """Fetch all pages, up to a bound. Raises AttemptFailed."""
        found: list[Listed] = []
        cursor: str | None = None
        seen: set[str] = set()
        for _ in range(PAGES_MAX):
            try:
                with _faults():
                    params = None if cursor is None else PaginatedRequestParams(cursor=cursor)
                    page = await self.client.list_tools(params=params)
            except ToolError as error:
                raise AttemptFailed(f"its list of tools cannot be had: {error}") from error
            found += [_listed(tool) for tool in page.tools]
            cursor = page.next_cursor
            # A cursor that comes again would be a circle.
            if not cursor or cursor in seen or len(found) > self.tools_max:
                break
            seen.add(cursor)
        return found

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        """Call a tool; returns a value for the model. Raises AttemptFailed, ToolError.

        Cancelled: the server is told so.
        """
        with _faults():
            result = await self.client.call_tool(name, arguments, allow_input_required=True)
        return value_of(result)

    async def is_alive(self) -> bool:
        """Whether the server answers at all; a refusal is an answer. Waits without a limit."""
        try:
            await self.client.send_ping()
        except MCPError as error:
            return error.code not in _NOT_AN_ANSWER
        except ValidationError:
            return True
        except _GONE:
            return False
        return True


def _listed(tool: Any) -> Listed:
    said = tool.annotations
    return Listed(
        name=tool.name,
        description=tool.description or tool.title or "",
        schema=tool.input_schema,
        read_only=said.read_only_hint if said is not None else None,
        idempotent=said.idempotent_hint if said is not None else None,
    )


@contextlib.contextmanager
def _faults() -> Any:
    try:
        yield
    except MCPError as error:
        raise fault_of(error.code, error.message, error.data) from error
    except ValidationError as error:
        # It has answered, but not what was done: for a write that is as good as no answer.
        raise AttemptFailed(
            f"the answer is not one of the protocol ({error.error_count()} faults)",
            kind="connection",
        ) from None
    except _GONE as error:
        raise AttemptFailed("the connection was closed", kind="connection") from error
    except RuntimeError as error:
        # The SDK's word for a version that neither side knows, and for a session that is over.
        raise AttemptFailed(str(error)[:300], kind="connection", retryable=False) from error
