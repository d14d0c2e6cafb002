"""Play a dialect case through the pure half of worker/model: no sockets, no waiting, no loop.

A conversation as small as it can be: it retries what the judge calls transient, lets quirks change
the request, runs tools by recipe, answers problems and stops. What it proves is the reading and the
writing; the real client and the real loop are tested elsewhere.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs

from worker.core.errors import ModelError
from worker.core.limits import Status
from worker.core.messages import Message, Reply, ReplyKind
from worker.model.calls import id_source
from worker.model.deltas import ReplyAssembler
from worker.model.failures import ModelFailure, from_http, unreadable
from worker.model.jsontext import decode
from worker.model.normalise import NormaliseLimits, normalise
from worker.model.port import ModelRequest, OfferedTool
from worker.model.quirks import Quirks
from worker.model.sse import SseParser
from worker.model.wire import request_body, wire_names

CASES = Path(__file__).parent / "cases"
NOW = 1_800_000_000.0
ENDINGS = {
    ReplyKind.ANSWER: Status.COMPLETED,
    ReplyKind.EMPTY: Status.EMPTY_RESPONSE,
    ReplyKind.LENGTH: Status.INCOMPLETE_LENGTH,
    ReplyKind.CONTENT_FILTERED: Status.CONTENT_FILTERED,
    ReplyKind.REFUSED: Status.REFUSED,
}


def load(name: str) -> list[dict[str, Any]]:
    """Load a file of cases."""
    cases: list[dict[str, Any]] = json.loads((CASES / name).read_text(encoding="utf-8"))
    return cases


def offer(*specs: dict[str, Any]) -> list[OfferedTool]:
    """Offer tools by their raw schemas, as the registry would."""
    functions = [spec["function"] for spec in specs]
    names = wire_names(function["name"] for function in functions)
    return [
        OfferedTool(
            function["name"],
            names[function["name"]],
            function.get("description", ""),
            function["parameters"],
            validator(function["parameters"]),
        )
        for function in functions
    ]


def validator(schema: dict[str, Any]) -> Any:
    """Make a `validate` that names the field in every sentence."""
    compiled = jsonschema_rs.validator_for(schema)

    def validate(value: Any) -> list[str]:
        return [
            f"{'.'.join(map(str, error.instance_path)) or 'arguments'}: {error.message}"
            for error in compiled.iter_errors(value)
        ]

    return validate


class Refused(Exception):
    """An attempt gave no reply."""

    def __init__(self, failure: ModelFailure) -> None:
        super().__init__(failure.text)
        self.failure = failure


def read_response(response: dict[str, Any]) -> dict[str, Any]:
    """Read one scripted answer as a client would. Raises Refused or ModelError."""
    body = body_of(response)
    if response["status"] != 200:
        raise Refused(from_http(response["status"], headers_of(response), body, now=NOW))
    if "event-stream" in headers_of(response).get("content-type", ""):
        parser, assembler = SseParser(), ReplyAssembler()
        for piece in (*parser.feed(body), *parser.close()):
            if not assembler.done:
                assembler.feed(piece)
        return assembler.finish()
    try:
        if headers_of(response).get("content-encoding") == "gzip":
            body = zlib.decompress(body, wbits=31)
        value: dict[str, Any] = decode(body)
    except zlib.error:
        raise Refused(ModelFailure(Status.MODEL_UNAVAILABLE, True, "cut gzip")) from None
    except ValueError:
        raise Refused(unreadable(body)) from None
    return value


def headers_of(response: dict[str, Any]) -> dict[str, str]:
    """Return the headers with lower-case names; dates of the recipes are left to other tests."""
    given = response.get("headers") or {}
    return {name.lower(): value for name, value in given.items() if isinstance(value, str)}


def body_of(response: dict[str, Any]) -> bytes:
    """Return the bytes of a scripted body."""
    if "raw_body" in response:
        return str(response["raw_body"]).encode()
    if "raw_body_b64" in response:
        return base64.b64decode(response["raw_body_b64"])
    if "stream" in response:
        return b"".join(map(_piece, response["stream"]))
    body = response.get("body", "")
    return body.encode() if isinstance(body, str) else json.dumps(body).encode()


def _piece(item: Any) -> bytes:
    if isinstance(item, str):
        return item.encode()
    if "$raw_b64" in item:
        return base64.b64decode(item["$raw_b64"])
    if "$sleep_ms" in item or "$close" in item:
        return b""
    return b"data: " + json.dumps(item).encode() + b"\n\n"


class Conversation:
    """One case, played to its end."""

    def __init__(self, case: dict[str, Any], *, attempts: int = 3) -> None:
        self.context = case["request_context"]
        self.responses = self._script(case["responses"])
        self.tools = offer(*self.context["tools"])
        self.quirks = Quirks()
        self.attempts = attempts
        self.new_id = id_source()
        self.messages = [Message(body) for body in self.context.get("history", [])]
        self.messages.append(Message({"role": "user", "content": self.context["user"]}))
        self.requests: list[Any] = []
        self.executed: list[Any] = []

    def play(self) -> dict[str, Any]:
        """Play the case; return status, answer and executed calls."""
        status, answer = self._play()
        return {"status": str(status), "answer": answer, "executed": self.executed}

    def _play(self) -> tuple[str, str]:
        invalid = 0
        steps = self.context.get("limits", {}).get("max_steps", 8)
        for step in range(1, steps + 1):
            try:
                reply = self._reply(last=step == steps)
            except ModelError as error:
                return error.status, error.text
            if reply.kind is not ReplyKind.CALLS:
                return ENDINGS[reply.kind], reply.text
            if step == steps:
                break
            self._act(reply)
            invalid = invalid + 1 if all(call.problem for call in reply.calls) else 0
            if invalid == 3:
                return Status.TOOL_ERRORS, ""
        return Status.MAX_STEPS, ""

    def _reply(self, *, last: bool) -> Reply:
        """Ask until there is a reply that is not empty, a bounded number of times."""
        for attempt in range(1, self.attempts + 1):
            try:
                reply = self._attempt(last=last)
            except Refused as refused:
                error = refused.failure.error()
                if self.quirks.learn(refused.failure):
                    continue
            except ModelError as failed:
                error = failed
            else:
                if reply.kind is ReplyKind.EMPTY and attempt < self.attempts:
                    continue
                return reply
            if not error.transient or attempt == self.attempts:
                raise error
        raise AssertionError("the script asks for more quirks than there are attempts")

    def _attempt(self, *, last: bool) -> Reply:
        body = request_body(
            ModelRequest(self.messages, self.tools, allow_calls=not last),
            model="mock",
            stream=self.context["mode"] == "stream",
            quirks=self.quirks,
            max_output_tokens=self.context.get("max_output_tokens"),
            parallel_tool_calls=False if self.context.get("send_parallel_tool_calls") else None,
        )
        self.requests.append(json.loads(body))
        raw = read_response(next(self.responses))
        given = self.context.get("limits", {})
        limits = NormaliseLimits(given.get("max_argument_bytes", 65_536))
        return normalise(raw, self.tools, new_id=self.new_id, limits=limits)

    def _act(self, reply: Reply) -> None:
        self.messages.append(Message(reply.message))
        for call in reply.calls:
            content = call.problem
            if content is None:
                self.executed.append({"name": call.name, "arguments": call.arguments})
                content = self._result(call.name, call.arguments or {})
            body = {"role": "tool", "tool_call_id": call.id, "content": content}
            self.messages.append(Message(body))

    def _result(self, name: str, arguments: dict[str, Any]) -> str:
        recipe = self.context["tool_results"][name]
        if not isinstance(recipe, dict):
            return str(recipe) or "(no output)"
        ((kind, value),) = recipe.items()
        if kind == "$sum":
            return str(sum(arguments[key] for key in value))
        return {"$lone_surrogate": "bad \ud83d tail"}.get(kind, f"({kind} {value!s:.40})")

    @staticmethod
    def _script(responses: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        yield from responses
        while responses[-1].get("repeat"):
            yield responses[-1]
        raise AssertionError("more requests than answers")
