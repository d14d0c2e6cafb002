"""The probe against servers that are set up wrong, busy, silent or not there."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from tests.model.speakers import Body, Respond, always, calls, odd, probed, speaking
from worker.model.client import Endpoint
from worker.model.dialect import Verdict
from worker.model.probe import Standing, probe

PAGE = "<!doctype html><html><head><title>Welcome</title></head></html>"


@pytest.mark.parametrize(
    ("answer", "path", "seen", "does"),
    [
        (always(401, {"error": {"message": "bad key"}}), "/v1", "HTTP 401", "LOOPWORKER_API_KEY"),
        (always(404, "not found"), "", "HTTP 404", "should end in /v1"),
        (always(404, "not found"), "/x/v1", "HTTP 404", "the path of LOOPWORKER_MODEL_URL"),
        (always(404, {"error": "model 'any' not found"}), "/v1", "HTTP 404", "the name in"),
        (always(200, PAGE, content_type="text/html"), "", "Welcome", "should end in /v1"),
        (always(200, {"hello": 1}), "", "no choices", "should end in /v1"),
        (always(402, {"error": {"message": "no credit"}}), "/v1", "HTTP 402", "to spend"),
        (always(400, {"error": {"message": "strange"}}), "/v1", "strange", "objects to"),
    ],
)
async def test_servers_that_are_set_up_wrong(
    answer: Respond, path: str, seen: str, does: str
) -> None:
    """One request is enough to tell what is wrong and which setting mends it."""
    report = await probed(answer, path=path)

    assert (report.standing, report.requests) == (Standing.UNUSABLE, 1)
    (trait,) = report.traits
    assert trait.verdict is Verdict.WRONG
    assert seen in trait.seen
    assert does in trait.does


@pytest.mark.parametrize(
    ("headers", "body", "form", "waits"),
    [
        ({"retry_after": "2"}, "", "Retry-After in seconds", [2.0]),
        ({"retry_after_ms": "1500"}, "", "retry-after-ms", [1.5]),
        ({}, {"error": {"message": "Please try again in 1.2s"}}, "the wait in words", [1.2]),
        ({"x_ratelimit_reset": "3"}, "", "ratelimit-reset", [3.0]),
        ({"retry_after": "60"}, "", "Retry-After in seconds", []),
        ({}, "", "without a usable word", []),
    ],
)
async def test_throttling(headers: Body, body: Any, form: str, waits: list[float]) -> None:
    """The form of the wait is told; a short one is sat out once, then the server counts as busy."""
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    report = await probed(always(429, body, **headers), sleep=sleep)

    assert slept == waits
    assert report.requests == 1 + len(waits)
    assert form in report.traits[0].seen
    assert report.standing == Standing.UNREACHABLE


async def test_throttling_with_a_date() -> None:
    """A date is told apart from seconds, and the probe goes on once it has passed."""
    dated = {"status": 429, "body": "", "headers": {"retry-after": {"$http_date_in_s": 4}}}
    speaker = speaking(calls())
    requests: list[Body] = []
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    def answer(body: Body) -> Body:
        return dated if len(requests) == 1 else speaker(body)

    report = await probed(answer, requests=requests, sleep=sleep)

    assert report.traits[0].seen == "HTTP 429, Retry-After as a date"
    assert len(slept) == 1
    assert 0 < slept[0] <= 4
    assert (report.standing, odd(report)) == (Standing.USABLE, {})


async def test_refused_connection() -> None:
    """Where nobody listens the endpoint is unreachable, and that is all that is said."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    report = await probe(Endpoint(f"http://127.0.0.1:{port}/v1", "any"))

    assert (report.standing, len(report.traits)) == (Standing.UNREACHABLE, 1)


async def test_silence_ends_with_the_time() -> None:
    """A server that hangs costs the time of the probe, not more; what is left over is told."""
    speaker = speaking(calls())
    hanging = {"status": 200, "stream": [{"$sleep_ms": 60_000}]}

    def silent_stream(body: Body) -> Body:
        return hanging if body.get("stream") else speaker(body)

    dead = await probed(lambda _: hanging, seconds=0.8)
    half = await probed(silent_stream, seconds=4.0)

    assert (dead.standing, dead.requests) == (Standing.UNREACHABLE, 1)
    assert dead.seconds < 5
    assert odd(half)["stream"].verdict is Verdict.WRONG
    assert set(odd(half)) == {"stream"}
    assert half.standing == Standing.USABLE
