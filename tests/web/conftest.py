"""A running API and a client of it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from tests.web.house import House, leave_at_once


@pytest.fixture
async def house(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[House]:
    """A server without a token."""
    leave_at_once(monkeypatch)
    house = House()
    await house.server.start()
    yield house
    await house.server.stop()


@pytest.fixture
async def client(house) -> AsyncIterator[httpx.AsyncClient]:
    """A program on this machine."""
    async with httpx.AsyncClient(
        base_url=house.server.url, trust_env=False, verify=False
    ) as client:
        yield client
