"""The stand-in over HTTP: its wire format read by others, and what it refuses."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from worker.core.errors import ModelError
from worker.core.messages import Message, ReplyKind
from worker.guard.guard import Guard
from worker.http import HttpClient
from worker.model.client import ChatModel, Endpoint, ModelOptions, model_guard_policy
from worker.model.offline import OfflineModel
from worker.model.port import ModelRequest, OfferedTool
from worker.telemetry.tell import Telemetry

CHECKOUT = Path(__file__).resolve().parents[2]
SCHEMA = {"type": "object", "properties": {"symbol": {"type": "string"}}, "required": ["symbol"]}
TOOL = {
    "type": "function",
    "function": {"name": "get_stock_price", "description": "Latest price", "parameters": SCHEMA},
}
USER = {"role": "user", "content": "price of AAPL and TSLA?"}


@pytest.fixture(scope="module")
def running() -> Iterator[OfflineModel]:
    """One stand-in for all, in a thread: it takes a tenth of a second to stop."""
    model = OfflineModel().start()
    yield model
    model.stop()


@pytest.fixture
def server(running) -> OfflineModel:
    """A running stand-in that nobody has asked yet."""
    running.seen.clear()
    running.requests = running.refused = 0
    return running


@pytest.mark.parametrize("stream", [False, True])
async def test_our_client_reads_it(server, stream):
    """A call, its result and the answer, through the same path as a real model."""
    offered = OfferedTool(
        "get_stock_price", "get_stock_price", "Latest price", SCHEMA, lambda _: []
    )
    telemetry = Telemetry()
    guard = Guard("model", model_guard_policy(concurrency=4), telemetry=telemetry)
    model = ChatModel(
        Endpoint(server.url, "offline"),
        http=HttpClient(),
        guard=guard,
        telemetry=telemetry,
        options=ModelOptions(stream=stream),
    )
    messages = [Message(USER)]
    first = await model.reply(ModelRequest(messages=messages, tools=(offered,)))
    messages.append(Message(first.message))
    for call in first.calls:
        content = json.dumps({"symbol": call.arguments["symbol"], "price": 7})
        messages.append(Message({"role": "tool", "tool_call_id": call.id, "content": content}))
    last = await model.reply(ModelRequest(messages=messages, tools=(offered,)))
    await model.close()

    assert [call.arguments for call in first.calls] == [{"symbol": "AAPL"}, {"symbol": "TSLA"}]
    assert (last.kind, last.model) == (ReplyKind.ANSWER, "offline-stand-in")
    assert "symbol: TSLA, price: 7" in last.text
    assert last.usage.prompt_tokens > first.usage.prompt_tokens > 0
    assert (server.requests, server.refused) == (2, 0)


async def test_last_step_gets_an_answer(server):
    """With tools on offer and tool_choice none it answers with what it has."""
    offered = OfferedTool(
        "get_stock_price", "get_stock_price", "Latest price", SCHEMA, lambda _: []
    )
    telemetry = Telemetry()
    guard = Guard("model", model_guard_policy(concurrency=4), telemetry=telemetry)
    model = ChatModel(
        Endpoint(server.url, "offline"), http=HttpClient(), guard=guard, telemetry=telemetry
    )
    request = ModelRequest(messages=[Message(USER)], tools=(offered,), allow_calls=False)
    reply = await model.reply(request)
    await model.close()

    assert (reply.kind, server.seen[-1]["tool_choice"]) == (ReplyKind.ANSWER, "none")


@pytest.mark.parametrize("stream", [False, True])
async def test_the_official_client_reads_it(server, stream):
    """A second reader, written by others, finds the same calls and numbers."""
    async with openai.AsyncOpenAI(base_url=server.url, api_key="x", max_retries=0) as client:
        request: dict[str, Any] = {"model": "m", "messages": [USER], "tools": [TOOL]}
        if stream:
            got: dict[int, list[str]] = {}
            usage = None
            async for chunk in await client.chat.completions.create(
                **request, stream=True, stream_options={"include_usage": True}
            ):
                usage = chunk.usage or usage
                for call in chunk.choices[0].delta.tool_calls or () if chunk.choices else ():
                    got.setdefault(call.index, []).append(call.function.arguments)
            calls = ["".join(pieces) for pieces in got.values()]
        else:
            reply = await client.chat.completions.create(**request)
            calls = [call.function.arguments for call in reply.choices[0].message.tool_calls]
            usage = reply.usage
        models = [model.id async for model in client.models.list()]

    assert [json.loads(call) for call in calls] == [{"symbol": "AAPL"}, {"symbol": "TSLA"}]
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens > 0
    assert models == ["offline-stand-in"]


def called(call_id: str = "c1", name: str = "get_stock_price", arguments: str = "{}") -> dict:
    """Write an assistant message with one call."""
    function = {"name": name, "arguments": arguments}
    calls = [{"id": call_id, "type": "function", "function": function}]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def result(call_id: str = "c1", content: Any = "7") -> dict:
    """Write a tool message."""
    return {"role": "tool", "tool_call_id": call_id, "content": content}


TWO = called()
TWO["tool_calls"] = [called("c1")["tool_calls"][0], called("c2")["tool_calls"][0]]
TWINS = {**TWO, "tool_calls": [TWO["tool_calls"][0]] * 2}
BARE = {"type": "function", "function": {"name": "f", "parameters": {}}}

REFUSED: dict[str, dict[str, Any]] = {
    "no messages": {"messages": []},
    "unknown role": {"messages": [{"role": "developer", "content": "x"}]},
    "null user content": {"messages": [{"role": "user", "content": None}]},
    "result without a call": {"messages": [USER, result()]},
    "result for another call": {"messages": [USER, called(), result("c9")]},
    "results out of order": {"messages": [USER, TWO, result("c2"), result("c1")]},
    "unanswered call": {"messages": [USER, TWO, result("c1")]},
    "call answered twice": {"messages": [USER, called(), result(), result()]},
    "user between call and result": {"messages": [USER, called(), USER, result()]},
    "user right after a result": {"messages": [USER, called(), result(), USER]},
    "empty result": {"messages": [USER, called(), result(content="")]},
    "null result": {"messages": [USER, called(), result(content=None)]},
    "ends with the assistant": {"messages": [USER, {"role": "assistant", "content": "x"}]},
    "empty tool_calls": {"messages": [USER, {**called(), "tool_calls": []}, USER]},
    "null without calls": {"messages": [USER, {"role": "assistant", "content": None}, USER]},
    "blank assistant text": {"messages": [USER, {"role": "assistant", "content": " \n"}, USER]},
    "same id twice": {"messages": [USER, TWINS, result(), result()]},
    "empty id": {"messages": [USER, called(""), result("")]},
    "long id": {"messages": [USER, called("x" * 41), result("x" * 41)]},
    "arguments are no object": {"messages": [USER, called(arguments="[1]"), result()]},
    "arguments are empty": {"messages": [USER, called(arguments=""), result()]},
    "arguments hold NaN": {"messages": [USER, called(arguments='{"a": NaN}'), result()]},
    "illegal name": {"messages": [USER, called(name="time.now"), result()]},
    "empty tools": {"tools": []},
    "tool without properties": {"tools": [BARE]},
    "same tool twice": {"tools": [TOOL, TOOL]},
    "choice without tools": {"tool_choice": "auto"},
    "parallel without tools": {"parallel_tool_calls": True},
    "unknown choice": {"tools": [TOOL], "tool_choice": "maybe"},
    "stream options without stream": {"stream_options": {"include_usage": True}},
    "unknown field": {"max_token": 5},
    "no tokens": {"max_tokens": 0},
    "no model": {"model": ""},
}


@pytest.mark.parametrize("case", REFUSED)
async def test_invalid_request_is_refused(server, case):
    """Whatever some real server refuses is refused here, with the field that is wrong."""
    body = {"model": "m", "messages": [USER], **REFUSED[case]}
    http = HttpClient()
    reply = await http.post(server.url + "/chat/completions", content=json.dumps(body).encode())
    await http.aclose()
    error = json.loads(reply.body)["error"]

    assert (reply.status, error["type"]) == (400, "invalid_request_error")
    assert error["message"] and error["param"]
    assert server.refused == 1


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b'"x"', b'{"model": "\xff"}', b'{"n": NaN}'])
async def test_body_that_is_no_json_object_is_refused(server, raw):
    """Bytes that are no request do not crash it."""
    http = HttpClient()
    reply = await http.post(server.url + "/chat/completions", content=raw)
    await http.aclose()

    assert reply.status == 400


@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "system", "content": "s"}, USER],
        [USER, TWO, result("c1"), result("c2")],
        [USER, called(), result(), {"role": "assistant", "content": "done"}, USER],
        [USER, {**called(), "content": ""}, result()],
        [USER, {**called(), "reasoning_content": ""}, result()],
        [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
    ],
)
async def test_valid_conversation_is_accepted(server, messages):
    """Strict is not the same as narrow."""
    http = HttpClient()
    body = json.dumps({"model": "m", "messages": messages, "tools": [TOOL]}).encode()
    reply = await http.post(server.url + "/chat/completions", content=body)
    await http.aclose()

    assert reply.status == 200, reply.body


async def test_token_limit_cuts_the_answer(server):
    """A cut answer says that it was cut."""
    http = HttpClient()
    body = {"model": "m", "messages": [USER], "max_tokens": 3}
    reply = await http.post(server.url + "/chat/completions", content=json.dumps(body).encode())
    await http.aclose()
    choice = json.loads(reply.body)["choices"][0]

    assert (choice["finish_reason"], len(choice["message"]["content"])) == ("length", 3)


async def test_latency_passes_before_each_reply(monkeypatch):
    """Slowness can be had on purpose, and costs nobody else a turn: all wait at the same time."""
    slept, all_wait = [], asyncio.Event()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 12:
            all_wait.set()
        await asyncio.wait_for(all_wait.wait(), 20)

    held = types.SimpleNamespace(**vars(asyncio))
    held.sleep = sleep
    monkeypatch.setattr("worker.model.offline.asyncio", held)
    async with OfflineModel(latency_seconds=0.3) as server:
        http = HttpClient()
        body = json.dumps({"model": "m", "messages": [USER]}).encode()
        url = server.url + "/chat/completions"
        replies = await asyncio.gather(*(http.post(url, content=body) for _ in range(12)))
        await http.aclose()

    assert slept == [0.3] * 12
    assert [reply.status for reply in replies] == [200] * 12


def test_it_serves_from_a_thread():
    """Synchronous callers can have one beside them."""
    server = OfflineModel().start()
    try:
        with openai.OpenAI(base_url=server.url, api_key="x", max_retries=0) as client:
            reply = client.chat.completions.create(model="m", messages=[USER])
    finally:
        server.stop()

    assert reply.system_fingerprint == "offline-stand-in"
    assert "offline stand-in" in reply.choices[0].message.content


def test_command_serves_until_it_is_told_to_stop():
    """`python -m worker.model.offline` is all that a newcomer needs."""
    command = [sys.executable, "-m", "worker.model.offline", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().split()[3]
        with openai.OpenAI(base_url=url, api_key="x", max_retries=5) as client:
            models = [model.id for model in client.models.list()]
        process.terminate()
        code = process.wait(timeout=10)

    assert models == ["offline-stand-in"]
    assert code in (0, -15)


def test_command_in_a_python_without_the_packages():
    """A newcomer's own Python finds the file in the checkout: one line says what to do."""
    command = [sys.executable, "-S", "-m", "worker.model.offline"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=30, cwd=CHECKOUT)

    assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (1, "", 1)
    assert "uvicorn is not installed" in ran.stderr
    assert ".venv/bin/python -m worker.model.offline" in ran.stderr


async def test_stopped_server_is_gone():
    """After the block nobody answers, and the port is free."""
    async with OfflineModel() as server:
        port = server.port
    telemetry = Telemetry()
    model = ChatModel(
        Endpoint(server.url, "m"),
        http=HttpClient(),
        guard=Guard("model", model_guard_policy(concurrency=1), telemetry=telemetry),
        telemetry=telemetry,
        options=ModelOptions(attempts=1),
    )
    with pytest.raises(ModelError):
        await model.reply(ModelRequest(messages=[Message(USER)]))
    await model.close()
    async with OfflineModel(port=port) as again:
        assert again.port == port
