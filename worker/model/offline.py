"""A rule-based stand-in server over real HTTP: for the demo, for tests and for newcomers.

It speaks chat completions, streamed and not, and is as strict as the strictest real server about
what it is sent. The rules are in `standin/`; here are the wire, the socket and the command:

    python -m worker.model.offline --port 8091
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator
from typing import Any

try:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response, StreamingResponse
    from starlette.routing import Route
except ModuleNotFoundError as missing:
    if __name__ != "__main__":
        raise
    # Any Python finds this file in a checkout; only that of the environment has the packages.
    python = ".venv/bin/python -m worker.model.offline"
    sys.exit(f"{missing.name} is not installed for {sys.executable}: make setup, then {python}")

from worker.awaiting import happened
from worker.core.steps import tokens_in
from worker.model.standin.rules import respond
from worker.model.standin.strict import Objection, checked

MODEL = "offline-stand-in"
BODY_BYTES_MAX = 16 * 1024 * 1024
PIECE_CHARS = 24  # of a streamed text or arguments
SEEN_MAX = 200  # requests kept for whoever wants to look


class OfflineModel:
    """The server. `async with` serves in the running loop; `start` and `stop` in a thread.

    `latency_seconds` passes before each reply begins. `seen` holds the last request bodies and
    `refused` counts the requests that were not valid.
    """

    def __init__(
        self, *, host: str = "127.0.0.1", port: int = 0, latency_seconds: float = 0.0
    ) -> None:
        self.host = host
        self.port = port
        self.latency_seconds = latency_seconds
        self.seen: deque[dict[str, Any]] = deque(maxlen=SEEN_MAX)
        self.requests = 0
        self.refused = 0
        self._numbers = itertools.count(1)
        self._server: _Server | None = None
        self._serving: asyncio.Task[None] | None = None
        self._thread: threading.Thread | None = None

    def __repr__(self) -> str:
        return f"OfflineModel({self.url}, {self.requests} requests, {self.refused} refused)"

    @property
    def url(self) -> str:
        """The base URL for a client; the port is the real one once it serves."""
        return f"http://{self.host}:{self.port}/v1"

    async def __aenter__(self) -> OfflineModel:
        """Serve in the running loop. Raises OSError when the address is taken."""
        self._server, listener = self._prepared()
        self._serving = asyncio.create_task(self._server.serve([listener]), name="offline-model")
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Answer what is being answered, and stop."""
        server, serving = self._server, self._serving
        self._server = self._serving = None
        if server is not None and serving is not None:
            server.leave()
            await serving

    def start(self) -> OfflineModel:
        """Serve in a thread of its own. Raises OSError when the address is taken."""
        server, listener = self._prepared()

        def serve() -> None:
            asyncio.run(server.serve([listener]))

        self._server = server
        self._thread = threading.Thread(target=serve, name="offline-model", daemon=True)
        self._thread.start()
        return self

    def stop(self) -> None:
        """Stop the thread that `start` began. Idempotent."""
        server, thread = self._server, self._thread
        self._server = self._thread = None
        if server is not None and thread is not None:
            server.leave_from_thread()
            thread.join(timeout=5)

    def serve_forever(self) -> None:
        """Serve until SIGINT or SIGTERM, in this thread."""
        server, listener = self._prepared(leave_signals=False)
        print(f"offline stand-in at {self.url} (rules, not a model)", flush=True)
        asyncio.run(server.serve([listener]))

    def _prepared(self, *, leave_signals: bool = True) -> tuple[_Server, socket.socket]:
        # It listens from here on: a request that comes before the loop does waits in the backlog.
        listener = socket.create_server((self.host, self.port), backlog=512)
        # For every connection: else each reply waits 40 ms for an acknowledgement (Nagle).
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.port = listener.getsockname()[1]
        config = uvicorn.Config(
            self._app(),
            access_log=False,
            lifespan="off",
            log_config=None,
            loop="none",
            proxy_headers=False,
            timeout_graceful_shutdown=2,
            timeout_keep_alive=60,
            ws="none",
        )
        return _Server(config, leave_signals=leave_signals), listener

    def _app(self) -> Starlette:
        routes = [
            Route(f"{prefix}/chat/completions", self._complete, methods=["POST"])
            for prefix in ("/v1", "")
        ]
        routes += [Route(f"{prefix}/models", _models) for prefix in ("/v1", "")]
        return Starlette(routes=routes)

    async def _complete(self, request: Request) -> Response:
        self.requests += 1
        raw = await request.body()
        try:
            if len(raw) > BODY_BYTES_MAX:
                raise Objection("the body is too large", param="", code="too_large")
            body = checked(raw)
        except Objection as objection:
            self.refused += 1
            return _refusal(objection)
        self.seen.append(body)
        if self.latency_seconds:
            await asyncio.sleep(self.latency_seconds)
        reply = _reply(body, prompt_bytes=len(raw), number=next(self._numbers))
        if body.get("stream"):
            usage = bool((body.get("stream_options") or {}).get("include_usage"))
            return StreamingResponse(_events(reply, usage), media_type="text/event-stream")
        return JSONResponse(reply)


class _Server(uvicorn.Server):
    """A uvicorn that leaves the signals of its process to others, unless it is alone there."""

    def __init__(self, config: uvicorn.Config, *, leave_signals: bool) -> None:
        super().__init__(config)
        self._leave_signals = leave_signals
        self._leaving = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def leave(self) -> None:
        """Begin to stop."""
        self.should_exit = True
        self._leaving.set()

    def leave_from_thread(self) -> None:
        """Begin to stop, from another thread than the one that serves."""
        self.should_exit = True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._leaving.set)

    async def main_loop(self) -> None:
        # uvicorn's own loop wakes ten times a second, and takes as long to notice the end.
        self._loop = asyncio.get_running_loop()
        while not await self.on_tick(0):
            await happened(self._leaving, within=1.0)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        if self._leave_signals:
            yield
        else:
            with super().capture_signals():
                yield


async def _models(request: Request) -> Response:
    model = {"id": MODEL, "object": "model", "created": 0, "owned_by": "loopworker"}
    return JSONResponse({"object": "list", "data": [model]})


def _refusal(objection: Objection) -> Response:
    error = {
        "message": str(objection),
        "type": "invalid_request_error",
        "param": objection.param or None,
        "code": objection.code,
    }
    return JSONResponse({"error": error}, status_code=400)


def _reply(body: dict[str, Any], *, prompt_bytes: int, number: int) -> dict[str, Any]:
    message = respond(body)
    reason = "tool_calls" if message.get("tool_calls") else "stop"
    text = message["content"]
    limit = body.get("max_completion_tokens") or body.get("max_tokens")
    if text is not None and limit is not None and tokens_in(text) > limit:
        message["content"] = text[:limit]  # a token is at least one character
        reason = "length"
    said = message["content"] or json.dumps(message.get("tool_calls"), ensure_ascii=False)
    prompt, completion = max(1, prompt_bytes // 4), tokens_in(said)
    return {
        "id": f"offline-{number}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": MODEL,
        "system_fingerprint": MODEL,
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
        },
    }


async def _events(reply: dict[str, Any], with_usage: bool) -> AsyncIterator[bytes]:
    choice = reply["choices"][0]
    message = choice["message"]
    head = {key: reply[key] for key in ("id", "created", "model", "system_fingerprint")}
    head["object"] = "chat.completion.chunk"
    yield _event(head, {"role": "assistant", "content": "" if message["content"] else None})
    for piece in _pieces(message["content"] or ""):
        yield _event(head, {"content": piece})
    for index, call in enumerate(message.get("tool_calls") or ()):
        function = call["function"]
        first = {**call, "index": index, "function": {"name": function["name"], "arguments": ""}}
        yield _event(head, {"tool_calls": [first]})
        for piece in _pieces(function["arguments"]):
            part = {"index": index, "function": {"arguments": piece}}
            yield _event(head, {"tool_calls": [part]})
    yield _event(head, {}, choice["finish_reason"])
    if with_usage:
        yield _data({**head, "choices": [], "usage": reply["usage"]})
    yield b"data: [DONE]\n\n"


def _pieces(text: str) -> Iterator[str]:
    for start in range(0, len(text), PIECE_CHARS):
        yield text[start : start + PIECE_CHARS]


def _event(head: dict[str, Any], delta: dict[str, Any], reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return _data({**head, "choices": [choice]})


def _data(value: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n"


def main(arguments: list[str] | None = None) -> None:
    """Run the server from the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m worker.model.offline",
        description="An OpenAI-compatible stand-in made of rules, on loopback.",
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument("--port", type=int, default=8091, help="0 takes a free one")
    parser.add_argument("--latency", type=float, default=0.0, help="seconds before each reply")
    given = parser.parse_args(arguments)
    OfflineModel(host=given.host, port=given.port, latency_seconds=given.latency).serve_forever()


if __name__ == "__main__":
    main()
