"""What a server has spent so far: CPU seconds of all its processes, and what it counts itself."""

from __future__ import annotations

import json
import os
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import redis

from tests.servers.server import Server

_TICK = os.sysconf("SC_CLK_TCK")
Counts = dict[str, float]


def cpu_seconds(server: Server) -> float:
    """CPU seconds of the server's processes, of those that have ended as well."""
    assert server._popen is not None
    children: dict[int, list[int]] = {}
    spent: dict[int, float] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        children.setdefault(int(fields[1]), []).append(int(path.parent.name))
        spent[int(path.parent.name)] = sum(int(each) for each in fields[11:15]) / _TICK
    total, todo = 0.0, [server._popen.pid]
    while todo:
        pid = todo.pop()
        total += spent.get(pid, 0.0)
        todo += children.get(pid, [])
    return total


def redis_counts(server: Server) -> Counts:
    """Commands, bytes on the wire, bytes of the log and of memory."""
    with redis.Redis(port=server.port) as client:
        told: Any = client.info()
    return {
        "commands": told["total_commands_processed"],
        "wire_bytes": told["total_net_input_bytes"] + told["total_net_output_bytes"],
        "log_bytes": told.get("aof_current_size", 0),
        "stored_bytes": told["used_memory"],
    }


def postgres_counts(server: Server) -> Counts:
    """Transactions, bytes of the log and of tables with their indexes."""
    address = f"postgresql://tests:p%40ss%3Aw%C3%B6rd%2F%27%25@127.0.0.1:{server.port}/postgres"
    with psycopg.connect(address) as connection:
        found = connection.execute(
            "select (select sum(xact_commit) from pg_stat_database)::float8,"
            " (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::float8,"
            " (select sum(pg_total_relation_size(oid)) from pg_class where relkind = 'r')::float8"
        ).fetchone()
    assert found is not None
    return dict(zip(("commands", "log_bytes", "stored_bytes"), found, strict=True))


def nats_counts(server: Server) -> Counts:
    """Messages and bytes in and out, and bytes kept; the server must listen for it one port on."""
    told = {
        name: json.load(urllib.request.urlopen(f"http://127.0.0.1:{server.port + 1}/{name}"))
        for name in ("varz", "jsz")
    }
    return {
        "commands": told["varz"]["in_msgs"] + told["varz"]["out_msgs"],
        "wire_bytes": told["varz"]["in_bytes"] + told["varz"]["out_bytes"],
        "stored_bytes": told["jsz"]["bytes"],
    }


class Meter:
    """A server and what it counts."""

    def __init__(self, server: Server, counts: Callable[[Server], Counts] | None = None) -> None:
        self.server, self._counts = server, counts

    def read(self) -> Counts:
        """Everything that has been spent so far."""
        counts = self._counts(self.server) if self._counts else {}
        return {"cpu_s": cpu_seconds(self.server), **counts}


def spent(before: Counts, after: Counts, *, tasks: int) -> Counts:
    """What each task cost in between."""
    return {name: (after[name] - before[name]) / tasks for name in after}
