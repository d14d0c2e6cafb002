"""A real server on a private port and in a folder of its own, as the tests of engines need it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

STRICT = os.environ.get("STRICT") == "1" or os.environ.get("CI") == "true"
START_SECONDS = 40.0  # an Erlang machine on two busy cores takes its time
STOP_SECONDS = 15.0


def program(name: str, *places: str) -> str:
    """Find a server's program on the path or by glob patterns, the newest version first.

    A missing one fails the test in strict mode, and skips it elsewhere.
    """
    found = [
        str(path)
        for place in places
        for path in sorted(Path("/").glob(place.lstrip("/")), reverse=True)
    ]
    path = next(iter(found), None) or shutil.which(name)
    if path is not None:
        return path
    text = f"{name} is not installed"
    return pytest.fail(text) if STRICT else pytest.skip(text)


def free_port() -> int:
    """Find a port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def free_ports(count: int) -> int:
    """Find so many ports in a row that nobody listens on, and return the first."""
    for _ in range(100):
        first = free_port()
        try:
            with contextlib.ExitStack() as stack:
                for port in range(first, first + count):
                    stack.enter_context(socket.create_server(("127.0.0.1", port)))
        except (OSError, OverflowError):
            continue
        return first
    raise AssertionError(f"there are no {count} free ports in a row")


def accepts(port: int) -> bool:
    """Say whether somebody listens on a port."""
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Server:
    """One server process; it keeps its port and its data over a restart."""

    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        *,
        port: int,
        is_ready: Callable[[], bool] | None = None,
        environment: dict[str, str] | None = None,
        stop_signal: signal.Signals = signal.SIGTERM,
        start_seconds: float = START_SECONDS,
    ) -> None:
        self.command = list(command)
        self.folder = folder
        self.port = port
        self.log = folder / "server.log"
        self._is_ready = is_ready or (lambda: accepts(port))
        self._environment = {**os.environ, **(environment or {})}
        self._stop_signal = stop_signal
        self._start_seconds = start_seconds
        self._popen: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and block until it answers; fails with its log when it does not."""
        with self.log.open("ab") as log:
            self._popen = subprocess.Popen(
                self.command,
                cwd=self.folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # one signal reaches whatever it has started
            )
        ends = time.monotonic() + self._start_seconds
        while not self._is_ready():
            dead = self._popen.poll() is not None
            if dead or time.monotonic() > ends:
                said = self.log.read_text(errors="replace")[-2000:]
                self.kill()
                pytest.fail(f"{self.command[0]} did not start:\n{said}")
            time.sleep(0.02)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the server and all that it has started."""
        if self._popen is not None:
            try:
                os.killpg(self._popen.pid, number)
            except ProcessLookupError:
                return

    def freeze(self) -> None:
        """Let it stand still, with its connections open."""
        self.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        self.signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it as a crash would."""
        self.signal(signal.SIGKILL)
        self._reap()

    def stop(self) -> None:
        """End it as its operator would."""
        if self._popen is None:
            return
        self.thaw()
        self._popen.send_signal(self._stop_signal)
        try:
            self._popen.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.signal(signal.SIGKILL)
        self._reap()

    def _reap(self) -> None:
        if self._popen is not None:
            self._popen.wait()
            self._popen = None
