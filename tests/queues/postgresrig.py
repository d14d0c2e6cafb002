"""A PostgreSQL server as an operator and other programs see it."""

from __future__ import annotations

import subprocess
from dataclasses import replace

from tests.servers.postgresserver import PASSWORD
from tests.servers.server import program
from worker.core.errors import QueueUnavailable
from worker.postgres.link import PostgresLink
from worker.postgres.url import settings_of
from worker.queues.postgres_tables import QUEUE

OURS = "select count(*) from pg_stat_activity where application_name = 'loopworker'"


def native(broker, statement):
    """What an operator or another program types."""
    tool = program("psql", "/usr/lib/postgresql/*/bin/psql")
    command = [tool, "-h", "127.0.0.1", "-p", str(broker.port), "-U", "tests", "-qtA", "postgres"]
    done = subprocess.run(
        [*command, "-v", "ON_ERROR_STOP=1"],
        input=statement,
        env={"PGPASSWORD": PASSWORD, "PGCLIENTENCODING": "UTF8"},
        capture_output=True,
        text=True,
        check=False,
        timeout=20,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def schema_of(url):
    """The part of the server that an address names."""
    return url.partition("schema=")[2]


def link_of(url, **settings):
    """Connections, with other settings than those of the address."""
    return PostgresLink(
        replace(settings_of(url), **settings), part=QUEUE, unavailable=QueueUnavailable
    )
