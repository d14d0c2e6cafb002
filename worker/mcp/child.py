"""A server that is a process: started, spoken to line by line, and surely gone afterwards.

In place of the SDK's own transport, which reads lines of any length, hands our terminal to the
server as its standard error, and logs what it cannot parse. The process gets an environment of its
own, so that it learns none of our keys, and a process group, so that its children end with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import ErrorData, JSONRPCError, jsonrpc_message_adapter

from worker.mcp.faults import MESSAGE_TOO_LONG, LaunchFailed
from worker.mcp.lines import LineBuffer, TooLong
from worker.mcp.port import Hooks

# What programs need to find their files, to run and to write dates and text; nothing of ours.
PASSED_ON = (
    *("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ"),
    *("USER", "XDG_CACHE_HOME"),
)
CHUNK_BYTES = 65_536
SAID_BYTES_MAX = 2_000  # of one line on standard error
WRITES_WAITING = 64  # messages for a server that does not read
# The protocol's order of asking: its input is closed, then it is told, then it is killed.
FLUSH_SECONDS = 0.5
CLOSE_SECONDS = 1.0
TERMINATE_SECONDS = 1.0
KILL_SECONDS = 2.0
_POLL_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Launch:
    """How a server is started. `env` comes on top of what every server gets."""

    command: str
    args: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict, repr=False)
    cwd: str | None = None
    message_bytes_max: int = 4 * 2**20


@contextlib.asynccontextmanager
async def child(launch: Launch, hooks: Hooks) -> AsyncIterator[tuple[Any, Any]]:
    """Run the server and give the streams to and from it, for the SDK.

    The stream from it ends when it does. Raises LaunchFailed. Cancelled: the process and its group
    are killed.
    """
    process = await _start(launch)
    hooks.started(process.pid)
    streams = _Streams(process, launch.message_bytes_max, hooks)
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(streams.read()),
                group.create_task(streams.write()),
                group.create_task(streams.listen()),
            ]
            try:
                yield streams.incoming, streams.outgoing
            finally:
                try:
                    await _stop(process, streams)
                finally:
                    for task in tasks:
                        task.cancel()
    finally:
        _kill(process)
        hooks.stopped(process.pid)
        streams.close()


def environment(extra: dict[str, str]) -> dict[str, str]:
    """The environment of a server: what is passed on of ours, and what was set for it."""
    # A value that begins like this is a function that a shell exported.
    ours = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    return {name: text for name, text in ours.items() if not text.startswith("()")} | extra


async def _start(launch: Launch) -> asyncio.subprocess.Process:
    try:
        return await asyncio.create_subprocess_exec(
            launch.command,
            *launch.args,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment(launch.env),
            cwd=launch.cwd,
            start_new_session=True,
        )
    except FileNotFoundError as error:
        if launch.cwd is not None and error.filename == launch.cwd:
            raise LaunchFailed(f"its working folder {launch.cwd!r} does not exist") from None
        raise LaunchFailed(f"{launch.command!r} was not found; is it installed?") from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise LaunchFailed(f"{launch.command!r} cannot be started: {why}") from None


class _Streams:
    """The pipes of a process as streams of messages."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        bytes_max: int,
        hooks: Hooks,
    ) -> None:
        self._process = process
        self._bytes_max = bytes_max
        self._said = hooks.said
        self._garbage = hooks.garbage
        self._arrived, self.incoming = anyio.create_memory_object_stream[Any](0)
        self.outgoing, self._leaving = anyio.create_memory_object_stream[Any](WRITES_WAITING)
        self.written = asyncio.Event()

    def close(self) -> None:
        """Close all ends; one left open would be a warning later on."""
        for stream in (self._arrived, self.incoming, self.outgoing, self._leaving):
            stream.close()

    async def read(self) -> None:
        """Hand over messages until the process closes its output or the session its ear."""
        assert self._process.stdout is not None
        buffer = LineBuffer(self._bytes_max)
        try:
            while chunk := await self._process.stdout.read(CHUNK_BYTES):
                for line in buffer.feed(chunk):
                    item = self._message(line)
                    if item is not None:
                        await self._arrived.send(SessionMessage(item))
            rest = buffer.rest()
            if rest is not None:
                self._garbage(_shown(rest))
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            # The session is over. A process that is blocked by its output could not end by itself.
            while await self._process.stdout.read(CHUNK_BYTES):
                pass
        except ConnectionError:
            return
        finally:
            self._arrived.close()

    async def write(self) -> None:
        """Write messages until there are no more; a process that is gone ends the session."""
        stdin = self._process.stdin
        assert stdin is not None
        try:
            async for item in self._leaving:
                try:
                    text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                except ValueError:  # half a surrogate pair: this message alone cannot be sent
                    self._garbage("a message to it that is not UTF-8 was not sent")
                    continue
                stdin.write(text.encode() + b"\n")
                await stdin.drain()
        except (ConnectionError, RuntimeError):  # RuntimeError: the transport is closed
            self._arrived.close()
        finally:
            self.written.set()

    async def listen(self) -> None:
        """Pass on what the process says on its standard error."""
        assert self._process.stderr is not None
        buffer = LineBuffer(SAID_BYTES_MAX)
        try:
            while chunk := await self._process.stderr.read(CHUNK_BYTES):
                for line in buffer.feed(chunk):
                    self._said("(a line too long)" if isinstance(line, TooLong) else _shown(line))
        except ConnectionError:
            return

    def _message(self, line: bytes | TooLong) -> Any:
        if isinstance(line, TooLong):
            if line.request_id is None:
                self._garbage(f"a message of more than {self._bytes_max} bytes")
                return None
            text = f"the answer has more than {self._bytes_max} bytes"
            error = ErrorData(code=MESSAGE_TOO_LONG, message=text)
            return JSONRPCError(jsonrpc="2.0", id=line.request_id, error=error)
        if not line.strip():
            return None
        try:
            return jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            self._garbage(_shown(line))
            return None


def _shown(line: bytes) -> str:
    return line[:SAID_BYTES_MAX].decode("utf-8", "replace").rstrip()


# --- the end ------------------------------------------------------------------------------------


async def _stop(process: asyncio.subprocess.Process, streams: _Streams) -> None:
    """End the process in the order of the protocol; every wait is bounded."""
    streams.incoming.close()
    streams.outgoing.close()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(FLUSH_SECONDS):
            await streams.written.wait()
    if process.stdin is not None:
        process.stdin.close()
    if not await _has_ended(process, CLOSE_SECONDS):
        _signal(process, signal.SIGTERM)
        if not await _has_ended(process, TERMINATE_SECONDS):
            _kill(process)
            await _has_ended(process, KILL_SECONDS)
    _close_transport(process)


async def _has_ended(process: asyncio.subprocess.Process, seconds: float) -> bool:
    # Not process.wait(): that waits for the pipes as well, which a grandchild may hold.
    clock = asyncio.get_running_loop().time
    ends = clock() + seconds
    while process.returncode is None:
        if clock() >= ends:
            return False
        await asyncio.sleep(_POLL_SECONDS)
    return True


def _kill(process: asyncio.subprocess.Process) -> None:
    """Kill the whole group: children of a server that is gone are left in it."""
    _signal(process, signal.SIGKILL)


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _close_transport(process: asyncio.subprocess.Process) -> None:
    # Nothing public closes the ends of pipes that a stray descendant still holds.
    transport = getattr(process, "_transport", None)
    if transport is not None:
        with contextlib.suppress(PermissionError, ProcessLookupError):
            transport.close()
