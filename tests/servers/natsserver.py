"""A NATS server with JetStream for the tests; a kill of the process loses nothing."""

from __future__ import annotations

import itertools
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.servers.server import Server, free_port, program

_PREFIXES = itertools.count(1)


@contextmanager
def nats_server(folder: Path, *lines: str, jetstream: str = "", port: int = 0) -> Iterator[Server]:
    """Run a server whose data are in the folder; `lines` are added to its file."""
    port = port or free_port()
    config = folder / "nats.conf"
    streams = (
        f'jetstream {{ store_dir: "{folder}/data", {jetstream} }}' if jetstream != "off" else ""
    )
    config.write_text("\n".join((f'listen: "127.0.0.1:{port}"', streams, *lines)))
    path = program("nats-server", f"{sysconfig.get_path('scripts')}/nats-server")
    server = Server([path, "-c", str(config)], folder, port=port)
    server.start()
    try:
        yield server
    finally:
        server.kill()  # it would say goodbye to its clients for seconds


def own_url(port: int) -> str:
    """Name a part of the server that no other test uses."""
    return f"nats://127.0.0.1:{port}/?prefix=test-{next(_PREFIXES)}-"
