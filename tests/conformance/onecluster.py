"""A schema of a PostgreSQL server for the suites: a clock that the tests move, an outage, what to close."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import psycopg

from tests.servers.postgresserver import PostgresServer, own_url
from tests.servers.server import free_port
from worker.postgres.url import LinkSettings, settings_of

CUT = """
select count(pg_terminate_backend(pid, 5000)) from pg_stat_activity
where application_name = 'loopworker'
"""


class OneCluster:
    """What the harnesses of queue and store share; whatever they open has its own connections."""

    def __init__(self, server: PostgresServer) -> None:
        self.moved = 0.0
        settings = settings_of(own_url(server.port))
        self._address = dict(settings.options)
        self.settings: LinkSettings = replace(
            settings,
            options=self._address,
            shift=lambda: self.moved,
            answer_seconds=30.0,  # however much else this machine has to do
        )
        self.opened: list[Any] = []

    async def pass_time(self, seconds: float) -> None:
        """Move the clock."""
        self.moved += seconds

    @asynccontextmanager
    async def outage(self) -> AsyncIterator[None]:
        """Cut every connection, and let new ones meet nobody."""
        port = self._address["port"]
        async with await psycopg.AsyncConnection.connect(**self._address) as operator:
            self._address["port"] = free_port()
            await operator.execute(CUT)
        yield
        self._address["port"] = port

    async def close(self) -> None:
        """Close whatever was opened."""
        for each in self.opened:
            await each.close()
