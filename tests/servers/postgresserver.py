"""A PostgreSQL server for the tests: a cluster of its own, a schema for each test.

The server refuses to be root's: where the tests are, it runs as the user `nobody`, in a folder that
this user can reach.
"""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.servers.server import Server, free_port, program

_PLACES = "/usr/lib/postgresql/*/bin/"
_SCHEMAS = itertools.count(1)
PASSWORD = "p@ss:wörd/'%"
_ESCAPED = "p%40ss%3Aw%C3%B6rd%2F%27%25"
_SETTINGS = {
    "unix_socket_directories": "",
    "listen_addresses": "127.0.0.1",
    "shared_buffers": "16MB",
    "max_connections": "60",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "log_min_messages": "fatal",
}


class PostgresServer(Server):
    """A server whose processes each have a group of their own: all of them get a signal."""

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the server and to its processes, of which it can start no more."""
        if self._popen is None:
            return
        self._send(self._popen.pid, signal.SIGSTOP)
        for pid in _children(self._popen.pid):
            self._send(pid, number)
        self._send(self._popen.pid, number)

    @staticmethod
    def _send(pid: int, number: signal.Signals) -> None:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return


def _children(parent: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            after_name = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        if int(after_name[1]) == parent:
            found.append(int(path.parent.name))
    return found


def _as_a_user(*command: str) -> list[str]:
    """The command, by a user who is not root."""
    if os.geteuid() != 0:
        return list(command)
    return [program("setpriv"), "--reuid=nobody", "--regid=nogroup", "--clear-groups", *command]


@contextmanager
def postgres_server(*options: str) -> Iterator[PostgresServer]:
    """Run a server with the database `postgres` and the user `tests`, which needs `PASSWORD`."""
    initdb, postgres = (program(name, _PLACES + name) for name in ("initdb", "postgres"))
    # Below the folder for short-lived files itself: folders of the tests are for their user alone.
    folder = Path(tempfile.mkdtemp(prefix="postgres-", dir=_fast_folder()))
    try:
        secret = folder / "secret"
        secret.write_text(PASSWORD + "\n", encoding="utf-8")
        if os.geteuid() == 0:
            for path in (folder, secret):
                shutil.chown(path, "nobody", "nogroup")
        made = subprocess.run(
            _as_a_user(
                *(initdb, "--pgdata", str(folder / "data"), "--username", "tests", "--no-sync"),
                *("--auth", "scram-sha-256", "--pwfile", str(secret), "--encoding", "UTF8"),
                *("--locale", "C"),
            ),
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        if made.returncode:
            pytest.fail(f"initdb failed:\n{made.stdout}{made.stderr}")
        port = free_port()
        settings = [f"--{name}={value}" for name, value in _SETTINGS.items()]
        command = [postgres, "-D", str(folder / "data"), "-p", str(port), *settings, *options]
        server = PostgresServer(
            _as_a_user(*command),
            folder,
            port=port,
            is_ready=lambda: _answers(port),
            stop_signal=signal.SIGINT,
        )
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _fast_folder() -> str | None:
    """Where nothing waits for a disk, if there is room: no test here ends the machine."""
    memory = "/dev/shm"
    has_room = os.path.isdir(memory) and shutil.disk_usage(memory).free > 2**30
    return memory if has_room else None


def _answers(port: int) -> bool:
    tool = program("pg_isready", _PLACES + "pg_isready")
    command = [tool, "--quiet", "--host", "127.0.0.1", "--port", str(port)]
    return subprocess.run(command, check=False).returncode == 0


def own_url(port: int, *, password: str = _ESCAPED) -> str:
    """Name a part of the server that no other test uses."""
    schema = f"test_{os.getpid()}_{next(_SCHEMAS)}"
    return f"postgresql://tests:{password}@127.0.0.1:{port}/postgres?schema={schema}"
