"""Clients over both transports."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from worker.http import HttpClient, HttpOptions


@pytest.fixture(params=["aiohttp", "httpx"])
async def make(request: pytest.FixtureRequest) -> AsyncIterator[Callable[..., HttpClient]]:
    """Build clients over one transport, and close them afterwards."""
    built: list[HttpClient] = []

    def build(**options: object) -> HttpClient:
        built.append(HttpClient(HttpOptions(transport=request.param, **options)))  # type: ignore[arg-type]
        return built[-1]

    yield build
    for client in built:
        await client.aclose()
