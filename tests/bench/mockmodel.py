"""A model server that costs almost nothing: every reply is ready before the first request.

It speaks just enough HTTP/1.1 with keep-alive. A conversation gets `calls` requests for a tool, one
after another, and then an answer; how far it is, it sees by counting the tool results in the
request. Run it as a process of its own: `python -m tests.bench.mockmodel --latency 0.2`; it prints
its port and serves until it is killed or its standard input ends.
"""

from __future__ import annotations

import argparse
import asyncio
import sys

import orjson

TOOLS = ("look_up", "measure")
RESULT_MARK = b'"tool_call_id"'
HEAD_END = b"\r\n\r\n"
CALLS_MAX = 1000


def ask_for(number: int) -> bytes:
    """Return the reply that asks for the call of this number; no two calls are the same."""
    arguments = orjson.dumps({"key": f"item-{number}", "region": "EU"}).decode()
    call = {
        "id": f"call_{number:024d}",
        "type": "function",
        "function": {"name": TOOLS[number % len(TOOLS)], "arguments": arguments},
    }
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    return reply(message, "tool_calls")


def reply(message: dict[str, object], finish_reason: str) -> bytes:
    """Return a whole HTTP response with a chat completion in it."""
    body = orjson.dumps(
        {
            "id": "chatcmpl-0123456789abcdefghijklmn",
            "object": "chat.completion",
            "created": 1767225600,
            "model": "mock-1",
            "choices": [{"index": 0, "message": message, "finish_reason": finish_reason}],
            "usage": {"prompt_tokens": 180, "completion_tokens": 24, "total_tokens": 204},
        }
    )
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
    return head.encode() + HEAD_END + body


ANSWER = reply(
    {"role": "assistant", "content": "Item 0 and item 1 were found, and both measure 42."}, "stop"
)
ASKED = [ask_for(number) for number in range(CALLS_MAX)]


class Connection(asyncio.Protocol):
    """One client's connection; requests come one after another."""

    def __init__(self, calls: int, latency: float) -> None:
        self.calls = calls
        self.latency = latency
        self.loop = asyncio.get_running_loop()
        self.pieces: list[bytes] = []
        self.missing = 0  # bytes of the body that have not come yet

    def connection_made(self, transport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        if self.missing:
            self.pieces.append(data)
            self.missing -= len(data)
        else:
            if self.pieces:
                data = b"".join((*self.pieces, data))
                self.pieces.clear()
            self.pieces.append(data)
            end = data.find(HEAD_END)
            if end < 0:
                return
            self.missing = length_in(data[:end]) - (len(data) - end - len(HEAD_END))
        if self.missing <= 0:
            self.missing = 0
            self.answer(b"".join(self.pieces))
            self.pieces.clear()

    def answer(self, request: bytes) -> None:
        """Send the reply that fits the conversation, at once or after the latency."""
        made = request.count(RESULT_MARK)
        ready = ASKED[made] if made < self.calls else ANSWER
        if self.latency:
            self.loop.call_later(self.latency, self.send, ready)
        else:
            self.transport.write(ready)

    def send(self, ready: bytes) -> None:
        """Send a delayed reply, if anybody is still there."""
        if not self.transport.is_closing():
            self.transport.write(ready)


def length_in(head: bytes) -> int:
    """Read the length of the body from the head of a request."""
    lower = head.lower()
    start = lower.find(b"content-length:")
    if start < 0:
        return 0
    end = lower.find(b"\r\n", start)
    return int(lower[start + 15 : end if end >= 0 else len(lower)])


async def serve(calls: int, latency: float, port: int = 0) -> None:
    """Serve until standard input ends."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: Connection(calls, latency), "127.0.0.1", port, backlog=4096
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


def main() -> None:
    """Read the options and serve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=2, help="tool calls of one conversation")
    parser.add_argument("--latency", type=float, default=0.0, help="seconds before each reply")
    parser.add_argument("--port", type=int, default=0)
    options = parser.parse_args()
    try:
        import uvloop
    except ImportError:
        asyncio.run(serve(options.calls, options.latency, options.port))
    else:
        uvloop.run(serve(options.calls, options.latency, options.port))


if __name__ == "__main__":
    main()
