"""A Redis server for the tests: one process for a whole test session, a prefix for each test."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.servers.server import Server, free_port, program

_PREFIXES = itertools.count(1)


@contextmanager
def redis_server(folder: Path, *options: str, tls: bool = False) -> Iterator[Server]:
    """Run a server that writes nothing to the disk, unless `options` say so."""
    port = free_port()
    listens = ("--port", "0", "--tls-port", str(port)) if tls else ("--port", str(port))
    command = [
        *(program("redis-server"), *listens, "--bind", "127.0.0.1", "--save", ""),
        *("--appendonly", "no", "--dir", str(folder), *options),
    ]
    server = Server(command, folder, port=port)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def own_url(port: int) -> str:
    """Name a part of the server that no other test uses."""
    return f"redis://127.0.0.1:{port}/0?prefix=test-{next(_PREFIXES)}:"
