"""A RabbitMQ server for the tests: one Erlang machine, known to nobody but them."""

from __future__ import annotations

import itertools
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.servers.server import Server, free_port, program

_PREFIXES = itertools.count(1)


@contextmanager
def rabbit_server(folder: Path, *lines: str) -> Iterator[Server]:
    """Run a server whose data are in the folder; `lines` are added to its configuration."""
    port, dist, names = free_port(), free_port(), free_port()
    (folder / "enabled_plugins").write_text("[].")
    settings = (
        f"listeners.tcp.local = 127.0.0.1:{port}",
        "default_user = guest",
        "default_pass = guest",
        "disk_free_limit.absolute = 50MB",
        "log.file = false",
        "log.console = true",
        "log.console.level = warning",
        *lines,
    )
    (folder / "rabbitmq.conf").write_text("\n".join(settings) + "\n")
    environment = {
        "HOME": str(folder),
        "ERL_EPMD_PORT": str(names),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
        "RABBITMQ_CONF_ENV_FILE": "/dev/null",
        "RABBITMQ_DIST_PORT": str(dist),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
        "RABBITMQ_LOG_BASE": str(folder / "log"),
        "RABBITMQ_MNESIA_BASE": str(folder / "data"),
        "RABBITMQ_NODENAME": f"test-{port}@localhost",
        "RABBITMQ_PID_FILE": str(folder / "pid"),
        # Idle schedulers would spin: the machine belongs to the tests.
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+sbwt none +sbwtdcpu none +sbwtdio none +S 2:2",
    }
    path = program("rabbitmq-server", "/usr/lib/rabbitmq/bin/rabbitmq-server")
    server = Server(
        [path],
        folder,
        port=port,
        environment=environment,
        stop_signal=signal.SIGKILL,
        start_seconds=120.0,
    )
    server.start()
    try:
        yield server
    finally:
        server.kill()
        epmd = shutil.which("epmd")  # the register of names, which outlives its machine
        if epmd:
            subprocess.run([epmd, "-port", str(names), "-kill"], capture_output=True, timeout=20)


def own_url(port: int) -> str:
    """Name a part of the server that no other test uses."""
    return f"amqp://guest:guest@127.0.0.1:{port}/?prefix=test-{next(_PREFIXES)}-"
