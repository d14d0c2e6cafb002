"""A schema of a PostgreSQL server for the suites: a clock that the tests move, an outage, what to close."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from tests.servers.postgresserver import own_url
from tests.servers.proxy import Proxy
from worker.postgres.url import LinkSettings, settings_of


class OneCluster:
    """What the harnesses of queue and store share; whatever they open has its own connections."""

    def __init__(self, proxy: Proxy) -> None:
        self.proxy = proxy
        self.moved = 0.0
        settings = settings_of(own_url(proxy.port))
        self.settings: LinkSettings = replace(settings, shift=lambda: self.moved)
        self.opened: list[Any] = []

    async def pass_time(self, seconds: float) -> None:
        """Move the clock."""
        self.moved += seconds

    @asynccontextmanager
    async def outage(self) -> AsyncIterator[None]:
        """Cut every connection, and refuse new ones."""
        self.proxy.refuse()
        yield
        self.proxy.pass_on()

    async def close(self) -> None:
        """Close whatever was opened."""
        for each in self.opened:
            await each.close()
