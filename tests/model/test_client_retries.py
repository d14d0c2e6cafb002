"""The model client in trouble: which attempts it makes, how long it waits, how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.model.clientworld import (
    ASK,
    BUSY,
    GOOD,
    body,
    cut_off,
    refusal,
    silent,
    trickle,
    worlds,
)
from worker.guard.verdict import Ruling, Verdict
from worker.model.port import ModelRequest


@pytest.fixture
async def world() -> AsyncIterator[Any]:
    """Build worlds, and take them down."""
    async with worlds() as build:
        yield build


@pytest.mark.parametrize(
    "bad",
    [
        BUSY,
        (529, {}, {"error": {"type": "overloaded_error", "message": "Overloaded"}}),
        (502, {"content-type": "text/html"}, b"<html><body>proxy</body></html>"),
        (408, {}, {}),
        (200, {}, b""),
        (200, {}, b'{"id": "x", "cho'),
        (200, {}, {"id": None, "choices": None}),
        (200, {}, {"choices": []}),
        (200, {}, {"choices": None, "error": {"code": 502, "message": "upstream"}}),
        (200, {}, b"<html>captcha</html>"),
        cut_off,
        refusal("Failed to call a function.", code="tool_use_failed"),
    ],
    ids=lambda bad: getattr(bad, "__name__", str(bad)),
)
@pytest.mark.parametrize("transport", ["aiohttp", "httpx"])
async def test_passing_trouble_is_tried_again(world, bad, transport):
    """Whatever may pass costs a second attempt and no answer."""
    it = await world(bad, GOOD, transport=transport)
    reply = await it.ask()

    assert (reply.text, reply.attempts, len(it.server.requests)) == ("Hello", 2, 2)
    assert it.bodies[0] == it.bodies[1]
    assert it.call.attempts == 2


async def test_back_off_doubles_from_the_setting(world):
    """MODEL_BACKOFF is the first back-off."""
    it = await world(BUSY, BUSY, BUSY, GOOD, backoff_seconds=0.05)
    await it.ask()

    assert it.waits == pytest.approx([0.05, 0.1, 0.2])


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after-ms": "1300", "retry-after": "9"}, 1.3),
        ({"retry-after": "-3"}, 0.5),
        ({"retry-after": "soon"}, 0.5),
        ({"x-ratelimit-reset-tokens": "6m0s"}, None),
        ({"retry-after": "3600"}, None),
    ],
)
async def test_server_says_when_to_come_back(world, headers, wait):
    """A hint is the least wait, nonsense is ignored, and beyond the cap the call fails at once."""
    it = await world((429, headers, {"error": {"message": "slow"}}), GOOD)
    if wait is None:
        failed = await it.fail()

        assert (failed.status, len(it.server.requests)) == ("rate_limited", 1)
        assert failed.retry_after_seconds is not None and failed.retry_after_seconds > 120
    else:
        reply = await it.ask()

        assert (it.waits, reply.attempts) == ([pytest.approx(wait)], 2)


async def test_throttling_of_other_runs_is_sat_out(world):
    """When the answer to another run puts the end off, the call waits on and does not fail."""
    it = await world((429, {"retry-after": "5"}, {}), GOOD)
    admission = it.model.guard.admission
    others = admission.admit()
    later = Ruling(Verdict.NEUTRAL, throttled=True, retry_after_seconds=30.0)
    it.during_sleep = lambda: admission.settle(others, later)
    reply = await it.ask()

    assert (reply.text, reply.attempts) == ("Hello", 2)
    assert sum(it.waits) == pytest.approx(35, abs=0.5)


@pytest.mark.parametrize(
    ("bad", "status", "error_type"),
    [
        (refusal("bad key", 401), "auth_error", "http_4xx"),
        (
            refusal("Invalid value for 'temperature'", code="invalid_value"),
            "bad_request",
            "http_4xx",
        ),
        (refusal("exceeded", 429, code="insufficient_quota"), "quota_exhausted", "http_4xx"),
        (refusal("maximum context length is 8192"), "context_overflow", "http_4xx"),
        (refusal("filtered", code="content_filter"), "content_filtered", "http_4xx"),
        ((503, {"x-should-retry": "false"}, {}), "model_unavailable", "http_5xx"),
        ((200, {}, {"error": {"code": 402, "message": "credits"}}), "quota_exhausted", "http_4xx"),
    ],
    ids=str,
)
async def test_what_will_not_pass_is_not_tried_again(world, bad, status, error_type):
    """One request tells all; the ending says whose business it is."""
    it = await world(bad)
    failed = await it.fail()

    assert (failed.status, failed.transient, len(it.server.requests)) == (status, False, 1)
    assert it.call.error_type == error_type


async def test_attempts_are_bounded(world):
    """A server that is down for good ends the call, as something that may pass."""
    it = await world(BUSY, attempts=3)
    failed = await it.fail()

    assert (failed.status, failed.transient) == ("model_unavailable", True)
    assert len(it.server.requests) == 3
    assert (it.call.attempts, it.call.error_type) == (3, "http_5xx")


async def test_nobody_there_is_model_unavailable(world):
    """A refused connection has the same ending as a server that is down."""
    it = await world(GOOD, attempts=2)
    await it.server.__aexit__(None, None, None)
    failed = await it.fail()

    assert (failed.status, failed.transient) == ("model_unavailable", True)
    assert (it.call.attempts, it.call.error_type) == (2, "connection")


async def test_used_up_time_is_not_spent_twice(world):
    """A reply that trickled for the whole time is given up after one attempt."""
    it = await world(trickle, timeout_seconds=0.3, read_timeout_seconds=0.2)
    failed = await it.fail()

    assert (failed.status, len(it.server.requests)) == ("timeout", 1)
    assert it.call.error_type == "timeout"


async def test_silence_is_tried_again(world):
    """A server that says nothing may have lost the request."""
    it = await world(silent, GOOD, timeout_seconds=5, read_timeout_seconds=0.1)
    reply = await it.ask()

    assert (reply.text, reply.attempts) == ("Hello", 2)


async def test_deadline_of_the_task_ends_the_call(world):
    """When the task has no time left, that is what it ends with."""
    it = await world(trickle)
    failed = await it.fail(ModelRequest(messages=ASK.messages, seconds_left=0.2))
    none_left = await it.fail(ModelRequest(messages=ASK.messages, seconds_left=0.0))

    assert (failed.status, none_left.status) == ("deadline", "deadline")
    assert len(it.server.requests) == 1


async def test_wait_beyond_the_deadline_is_not_begun(world):
    """A hint that the task cannot wait for is handed up at once."""
    it = await world((429, {"retry-after": "30"}, {}), GOOD)
    failed = await it.fail(ModelRequest(messages=ASK.messages, seconds_left=5))

    assert (failed.status, failed.retry_after_seconds) == ("rate_limited", 30)
    assert (it.waits, len(it.server.requests)) == ([], 1)


async def test_open_breaker_sends_nothing(world):
    """While the endpoint rests, calls fail with the time to come back."""
    it = await world(GOOD)
    it.model.guard.force_open(who="test", why="test")
    failed = await it.fail()

    assert (failed.status, failed.transient, it.server.requests) == ("model_unavailable", True, [])
    assert it.call.error_type == "circuit_open"


async def test_breaker_opens_on_outage_and_not_on_our_mistakes(world):
    """Bad requests say nothing about the endpoint; failures do."""
    ours = await world(refusal("Invalid value", code="invalid_value"))
    theirs = await world(BUSY)
    for _ in range(10):
        await ours.fail()
        await theirs.fail()

    assert (ours.model.guard.state, theirs.model.guard.state) == ("closed", "open")


async def test_cancelled_call_is_nobodys_failure(world):
    """Who is cancelled stops waiting; the endpoint keeps its good name."""
    it = await world(silent)
    asking = asyncio.create_task(it.ask())
    await it.server.asked.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking

    assert it.call.error_type == "cancelled"
    assert it.model.guard.snapshot()["consecutive_failures"] == 0


async def test_reply_over_the_limit_is_refused(world):
    """A body without end is no reply."""
    it = await world((200, {}, body("x" * 200_000)), reply_bytes_max=100_000)
    failed = await it.fail()

    assert (failed.status, failed.transient) == ("protocol_error", False)
