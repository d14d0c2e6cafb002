"""Every scripted answer over real HTTP: the transport reads what the pure half reads."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any

import pytest

from tests.model.puredriver import Refused, load, read_response
from tests.model.scriptedmodel import scripted_model
from worker.core.errors import AttemptFailed, ModelError
from worker.http import Bounds, HttpClient, HttpOptions
from worker.model.failures import error_in
from worker.model.transport import ChatTransport

HANDED = load("dialects.json")
SLOW = {"H21"}  # a trickle; tests of the transport have their own


def purely(response: dict[str, Any]) -> Any:
    """Read a response without a network; for a failure, return its ending."""
    try:
        body = read_response(response)
        failure = error_in(body)
        return (failure.status, failure.transient) if failure else body
    except Refused as refused:
        return (refused.failure.status, refused.failure.transient)
    except ModelError as error:
        return (error.status, error.transient)


async def over_http(transport: ChatTransport, *, stream: bool) -> Any:
    """Read the next response of the server; for a failure, return its ending."""
    bounds = Bounds(total_seconds=10, read_seconds=10)
    try:
        return (await transport.ask(b"{}", stream=stream, bounds=bounds)).body
    except ModelError as error:
        return (error.status, error.transient)
    except AttemptFailed as failed:
        assert failed.retryable
        return ("model_unavailable", True)


@pytest.mark.parametrize(
    "case", [case for case in HANDED if case["id"] not in SLOW], ids=lambda case: case["id"]
)
async def test_transport_reads_what_the_pure_half_reads(case: dict[str, Any]) -> None:
    """Cut, reset, compressed or chunked: the same body, or the same ending."""
    responses = case["responses"]
    async with scripted_model(responses) as server, aclosing(HttpClient(HttpOptions())) as http:
        transport = ChatTransport(http, base_url=server.url)
        for response in responses:
            got = await over_http(transport, stream=case["request_context"]["mode"] == "stream")
            assert got == purely(response)

    assert len(server.requests) == len(server.times) == len(responses)
