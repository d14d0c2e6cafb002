"""A schema of a PostgreSQL server for the suites, and an outage of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import psycopg

from tests.conformance.atserver import AtServer
from tests.servers.postgresserver import PostgresServer, own_url
from tests.servers.server import free_port
from worker.postgres.url import LinkSettings, settings_of

CUT = """
select count(pg_terminate_backend(pid, 5000)) from pg_stat_activity
where application_name = 'loopworker'
"""


class OneCluster(AtServer):
    """What the harnesses of queue and store share."""

    def __init__(self, server: PostgresServer) -> None:
        super().__init__()
        settings = settings_of(own_url(server.port))
        self._address = dict(settings.options)
        self.settings: LinkSettings = replace(
            settings,
            options=self._address,
            shift=lambda: self.moved,
            answer_seconds=30.0,  # however much else this machine has to do
        )

    @asynccontextmanager
    async def outage(self) -> AsyncIterator[None]:
        """Cut every connection, and let new ones meet nobody."""
        port = self._address["port"]
        async with await psycopg.AsyncConnection.connect(**self._address) as operator:
            self._address["port"] = free_port()
            await operator.execute(CUT)
        yield
        self._address["port"] = port
