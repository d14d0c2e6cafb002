"""What goes to a server and comes from it, looked at on the way.

The SDK holds every answer against the protocol's model as a whole: one malformed tool would cost
all the tools of its server. So lists of tools are cleaned before it sees them, and what schemas say
of results is taken out, because the SDK would check it with an engine that can run away.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCResponse

if TYPE_CHECKING:
    from mcp.client._transport import ReadStream, WriteStream

NAME_CHARS_MAX = 128
ENTRIES_MAX = 5_000  # of one page
_HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
_TRACE_FIELDS = ("traceparent", "tracestate", "baggage")

LeaveOut = Callable[[str, str], None]


class _Around:
    """What is the same for a stream around another one, whichever way it leads."""

    _inner: ReadStream[SessionMessage | Exception] | WriteStream[SessionMessage]

    async def aclose(self) -> None:
        """Close the stream."""
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        return await self._inner.__aexit__(kind, error, trace)


class Sifted(_Around):
    """A stream of messages from a server; `heard` is called for each, `ended` once there are no more.

    `leave_out` is told the name and the fault of each tool that is taken out of a list.
    """

    _inner: ReadStream[SessionMessage | Exception]

    def __init__(
        self,
        inner: ReadStream[SessionMessage | Exception],
        *,
        heard: Callable[[], None],
        ended: Callable[[], None],
        leave_out: LeaveOut,
    ) -> None:
        self._inner = inner
        self._heard = heard
        self._ended = ended
        self._leave_out = leave_out

    @property
    def last_context(self) -> Any:
        """The context in which the last message was handed over, for the SDK."""
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        """Receive one message. Cancelled: it stays where it is."""
        try:
            return self._looked_at(await self._inner.receive())
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            self._ended()
            raise

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return self._looked_at(await self._inner.__anext__())
        except (StopAsyncIteration, anyio.ClosedResourceError):
            self._ended()
            raise

    def _looked_at(self, item: SessionMessage | Exception) -> SessionMessage | Exception:
        self._heard()
        if isinstance(item, SessionMessage) and isinstance(item.message, JSONRPCResponse):
            result = item.message.result
            if isinstance(result.get("tools"), list):
                result["tools"] = clean_list(result["tools"], self._leave_out)
        return item


class Untraced(_Around):
    """A stream of messages to a server that shall not learn of our traces."""

    _inner: WriteStream[SessionMessage]

    def __init__(self, inner: WriteStream[SessionMessage]) -> None:
        self._inner = inner

    async def send(self, item: SessionMessage, /) -> None:
        """Send a message without its trace context. Cancelled: it may have been sent."""
        params = getattr(item.message, "params", None)
        meta = params.get("_meta") if isinstance(params, dict) else None
        if isinstance(meta, dict):
            for name in _TRACE_FIELDS:
                meta.pop(name, None)
        await self._inner.send(item)


def clean_list(entries: list[Any], leave_out: LeaveOut) -> list[dict[str, Any]]:
    """Return the entries of a list of tools that have the form of one, reduced to what we use."""
    cleaned = []
    for entry in entries[:ENTRIES_MAX]:
        name = entry.get("name") if isinstance(entry, dict) else None
        if not isinstance(name, str) or not 0 < len(name) <= NAME_CHARS_MAX:
            leave_out(str(name)[:NAME_CHARS_MAX], "it has no name that can be used")
            continue
        if not name.isprintable():
            leave_out(name, "its name holds characters that cannot be printed")
            continue
        fault = _fault_of(entry.get("inputSchema"))
        if fault is not None:
            leave_out(name, f"its schema {fault}")
            continue
        cleaned.append(_reduced(name, entry))
    return cleaned


def _fault_of(schema: Any) -> str | None:
    """What the protocol's model would refuse, for this tool alone."""
    if not isinstance(schema, dict):
        return "is missing"
    if schema.setdefault("type", "object") != "object":
        return f"describes {str(schema['type'])[:40]!r}, not an object of parameters"
    properties, required = schema.get("properties"), schema.get("required")
    if properties is not None and not (
        isinstance(properties, dict)
        and all(isinstance(value, (dict, bool)) for value in properties.values())
    ):
        return "has properties that are none"
    if required is not None and not (
        isinstance(required, list) and all(isinstance(name, str) for name in required)
    ):
        return "requires what is no name"
    if not isinstance(schema.get("$schema", ""), str):
        return "names no dialect that is one"
    return None


def _reduced(name: str, entry: dict[str, Any]) -> dict[str, Any]:
    reduced: dict[str, Any] = {"name": name, "inputSchema": entry["inputSchema"]}
    for field in ("description", "title"):
        if isinstance(entry.get(field), str):
            reduced[field] = entry[field]
    said = entry.get("annotations")
    if isinstance(said, dict):
        hints = {hint: said[hint] for hint in _HINTS if isinstance(said.get(hint), bool)}
        reduced["annotations"] = hints
    return reduced
