"""The model client when all goes well, and what it learns about an endpoint."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.model.clientworld import (
    ASK,
    GOOD,
    USAGE,
    body,
    offered,
    refusal,
    worlds,
)
from tests.outbound.faulty import Exchange
from worker.core.messages import ReplyKind
from worker.core.prices import PriceList
from worker.model.client import ModelOptions
from worker.model.port import ModelRequest
from worker.telemetry.signals import QuirkLearned


@pytest.fixture
async def world() -> AsyncIterator[Any]:
    """Build worlds, and take them down."""
    async with worlds() as build:
        yield build


async def test_reply_is_read_and_counted(world):
    """Text, tokens, ids and attempts come back in one value, and the operation tells the same."""
    it = await world(GOOD)
    reply = await it.ask()

    assert (reply.kind, reply.text, reply.attempts) == (ReplyKind.ANSWER, "Hello", 1)
    assert (reply.model, reply.reply_id, reply.finish_reason) == ("m-large", "r1", "stop")
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (1000, 10)
    call = it.call
    assert (call.model, call.server_address, call.server_port) == ("m", "127.0.0.1", it.server.port)
    assert (call.attempts, call.prompt_tokens, call.cached_tokens) == (1, 1000, 400)
    assert (call.finish_reason, call.response_model, call.response_id) == ("stop", "m-large", "r1")
    assert (call.error_type, call.stream) == (None, False)


async def test_settings_reach_the_body(world):
    """What operations set is in the request, and nothing is sent that was not set."""
    it = await world(GOOD, max_output_tokens=77, parallel_tool_calls=False, extra={"seed": 3})
    await it.ask(ModelRequest(messages=ASK.messages, tools=(offered(),)))
    plain = await world(GOOD)
    await plain.ask()

    assert it.bodies[0]["max_tokens"] == 77
    assert it.bodies[0]["parallel_tool_calls"] is False
    assert it.bodies[0]["seed"] == 3
    assert set(plain.bodies[0]) == {"model", "messages"}


async def test_stream_is_asked_for_and_put_together(world):
    """MODEL_STREAM changes how the reply travels, not what it is."""

    async def stream(exchange: Exchange) -> None:
        chunks = [
            {"id": "s", "model": "m-large", "choices": [{"index": 0, "delta": {"content": "Hel"}}]},
            {"id": "s", "choices": [{"index": 0, "delta": {"content": "lo"}}]},
            {"id": "s", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
            {"id": "s", "choices": [], "usage": USAGE},
        ]
        data = b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks)
        kind = {"content-type": "text/event-stream"}
        await exchange.reply(data + b"data: [DONE]\n\n", headers=kind)

    it = await world(stream, stream=True)
    reply = await it.ask()

    assert (it.bodies[0]["stream"], reply.text, reply.finish_reason) == (True, "Hello", "stop")
    assert reply.usage.prompt_tokens == 1000
    assert it.call.stream
    assert it.call.first_chunk_seconds is not None


async def test_tokens_are_priced_by_the_list(world):
    """Cached tokens are part of the prompt and have a price of their own."""
    it = await world(GOOD, prices=PriceList(["m-large=10/100/1"]))
    reply = await it.ask()

    assert reply.usage.cost == pytest.approx((600 * 10 + 400 * 1 + 10 * 100) / 1e6)
    assert it.call.cost == reply.usage.cost


async def test_empty_reply_is_left_to_the_loop(world):
    """A reply without text and calls is a reply: the loop asks differently."""
    it = await world((200, {}, body("")))
    reply = await it.ask()

    assert (reply.kind, len(it.server.requests)) == (ReplyKind.EMPTY, 1)


async def test_quirk_is_learned_within_the_attempt_and_kept(world):
    """The telling 400 costs one request, once for ever, and no attempt."""
    objection = refusal(
        "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.",
        code="unsupported_parameter",
        param="max_tokens",
    )
    it = await world(objection, GOOD, max_output_tokens=9)
    first = await it.ask()
    await it.ask()
    sent = [set(each) & {"max_tokens", "max_completion_tokens"} for each in it.bodies]

    assert sent == [{"max_tokens"}, {"max_completion_tokens"}, {"max_completion_tokens"}]
    assert (first.attempts, it.waits) == (1, [])
    assert it.model.guard.snapshot()["counts"].get("failure", 0) == 0
    learned = [one for one in it.listener.told_signals if isinstance(one, QuirkLearned)]
    assert [(one.endpoint, one.quirk) for one in learned] == [
        ("127.0.0.1", "max_completion_tokens")
    ]


async def test_quirk_that_does_not_help_is_a_bad_request(world):
    """A server that repeats its objection is not asked for ever."""
    it = await world(refusal("single tool-calls only", param="parallel_tool_calls", code="x"))
    it.model.options = ModelOptions(parallel_tool_calls=False)
    objection = refusal("Unsupported: parallel_tool_calls", param="parallel_tool_calls")
    again = await world(objection, parallel_tool_calls=False)
    failed = await again.fail(ModelRequest(messages=ASK.messages, tools=(offered(),)))

    assert (failed.status, len(again.server.requests)) == ("bad_request", 2)


async def test_key_stays_out_of_texts(world):
    """Neither the error nor the representation shows the key."""
    it = await world(refusal("Incorrect API key provided: sk-abcdefgh12345678", 401))
    failed = await it.fail()

    assert "sk-abcdefgh" not in str(failed) + str(it.call.error)
    assert "'k'" not in repr(it.model) + repr(it.model.endpoint)
