"""An upstream over real HTTP, and a tool context as the worker would hand it out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import httpx
import pytest

from tests.examples.upstream import Upstream
from worker import ToolContext


@pytest.fixture
async def upstream() -> AsyncIterator[Upstream]:
    """A running upstream."""
    made = Upstream()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    async with server:
        yield made


@pytest.fixture
async def context() -> AsyncIterator[Callable[..., ToolContext]]:
    """Make tool contexts with a real HTTP client."""
    async with httpx.AsyncClient(trust_env=False) as http:
        yield lambda **fields: ToolContext(http=http, **fields)
