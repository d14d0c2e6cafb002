"""A model server that follows the plan in the question, and may be told to do harm on the way.

The input `t1: book a, look b` makes it ask for `book(text="a")`, then for `look(text="b")`, and
then answer `done: t1`. Words like `zone=UTC` are arguments of their own. How far a conversation is, it sees by counting the tool results since the
last question, so any worker may go on with it. Every request is kept: what a resumed run asks again
shows here, and in `messages` what it was told before.
"""

from __future__ import annotations

import collections
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

HEARD_MAX = 500  # last messages of requests that are kept


@dataclass(frozen=True, slots=True)
class Asked:
    """One request: the task's name in its plan, and which reply of the run is wanted (from 1)."""

    task: str
    step: int


TOO_LONG = {
    "error": {
        "message": "This model's maximum context length is 4096 tokens.",
        "type": "invalid_request_error",
        "code": "context_length_exceeded",
    }
}


class PlanModel:
    """The server, in threads of the test. `before_reply` may kill, stop or wait: it runs first."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.heard: collections.deque[tuple[Asked, str]] = collections.deque(maxlen=HEARD_MAX)
        self.messages: list[list[dict[str, Any]]] = []
        self.window_bytes = 1 << 30  # of the messages; more is refused
        self.refused = 0
        self.before_reply: Callable[[Asked], None] = lambda asked: None
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    @property
    def url(self) -> str:
        """The base URL for a worker."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def counts(self, task: str) -> dict[int, int]:
        """How often each step of a task was asked for."""
        return dict(collections.Counter(a.step for a in self.asked if a.task == task))

    def told(self, task: str) -> list[str]:
        """The last message of each request for a task, notes included, in order."""
        return [text for asked, text in self.heard if asked.task == task]

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: killed workers hang up in the middle of everything."""


def _handler(model: PlanModel) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if len(json.dumps(body["messages"])) > model.window_bytes:
                model.refused += 1
                return self._send("400 Bad Request", TOO_LONG)
            asked, message = reply_to(body["messages"])
            model.before_reply(asked)
            model.heard.append((asked, str(body["messages"][-1]["content"])))
            model.messages.append(body["messages"])
            model.asked.append(asked)  # whoever sees it here may rely on what came before
            self._send("200 OK", completion(message))

        def _send(self, status: str, body: dict[str, Any]) -> None:
            payload = json.dumps(body).encode()
            kind, size = "content-type: application/json", f"content-length: {len(payload)}"
            head = f"HTTP/1.1 {status}\r\n{kind}\r\n{size}"
            self.wfile.write(head.encode() + b"\r\n\r\n" + payload)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    return Handler


def reply_to(messages: list[dict[str, Any]]) -> tuple[Asked, dict[str, Any]]:
    """Find the plan and how far it is, and return the message that comes next."""
    start = max(place for place, m in enumerate(messages) if m["role"] == "user")
    question = messages[start]["content"]
    name, _, plan = question.partition(":")
    steps = [step.split() for step in plan.split(",") if step.strip()]
    done = sum(m["role"] == "tool" for m in messages[start:])
    asked = Asked(name, done + 1)
    if done >= len(steps):
        return asked, {"role": "assistant", "content": f"done: {name}"}
    tool, *words = steps[done]
    pairs = [word.partition("=") for word in words]
    is_named = bool(pairs) and all(sign for _, sign, _ in pairs)
    arguments = {name: value for name, _, value in pairs} if is_named else {"text": " ".join(words)}
    call = {
        "id": f"call_{done + 1}",
        "type": "function",
        "function": {"name": tool, "arguments": json.dumps(arguments)},
    }
    return asked, {"role": "assistant", "content": None, "tool_calls": [call]}


def completion(message: dict[str, Any]) -> dict[str, Any]:
    """Wrap a message as a chat completion."""
    reason = "tool_calls" if message.get("tool_calls") else "stop"
    return {
        "id": "plan",
        "object": "chat.completion",
        "created": 0,
        "model": "plan",
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    }
