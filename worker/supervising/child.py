"""One worker process among several: its life, and what it says of its health."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field

from worker.supervising.lines import LinePump

PROBE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Inherited:
    """What every process gets from its supervisor, as descriptors.

    `leash` is the end of a pipe that closes when the supervisor is gone, however it went. `api` is
    the listening socket that all of them accept from; None when the API is off.
    """

    leash: int
    api: int | None = None


@dataclass(slots=True)
class Child:
    """The process of a number, from 1; after its end another one may be started in its place."""

    number: int
    command: Sequence[str]
    admin: tuple[str, int] | None  # where it says how it is; None: nowhere
    process: asyncio.subprocess.Process | None = None
    started_at: float = 0.0
    is_ready: bool = False
    was_ready: bool = False
    unwell: int = 0  # probes in a row that found it unwell, after one that found it well
    restarts: int = 0  # in a row, for the back-off
    problem: str = field(default="starting")

    async def start(self, inherited: Inherited, pump: LinePump, *, now: float) -> None:
        """Start the process. Its session is its own: a Ctrl-C reaches it once, through us."""
        reading, writing = os.pipe()
        kept = [each for each in (inherited.leash, inherited.api) if each is not None]
        try:
            self.process = await asyncio.create_subprocess_exec(
                *self.command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=writing,
                pass_fds=kept,
                start_new_session=True,
            )
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        pump.pump(reading, name=f"lines of process {self.number}")
        self.started_at, self.unwell, self.problem = now, 0, "starting"
        self.is_ready = self.was_ready = False

    @property
    def is_alive(self) -> bool:
        """Whether there is a process that has not ended."""
        return self.process is not None and self.process.returncode is None

    def send(self, number: signal.Signals) -> None:
        """Send a signal, if there is still somebody to get it."""
        if self.process is not None and self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(number)

    async def gone(self) -> None:
        """Wait for the end of the process."""
        if self.process is not None:
            await self.process.wait()

    async def probe(self) -> None:
        """Ask it how it is. What is found stands in `is_ready`, `unwell` and `problem`."""
        if self.admin is None:
            self.is_ready = self.was_ready = self.is_alive
            self.problem = "" if self.is_alive else "ended"
            return
        asked = self.process
        lives, ready = await asyncio.gather(
            *(asyncio.to_thread(status_of, self.admin, page) for page in ("/healthz", "/readyz"))
        )
        if self.process is not asked or not self.is_alive:
            return  # it was about another process
        if lives == 200:
            self.unwell = 0
        elif self.was_ready:
            self.unwell += 1
        self.is_ready = ready == 200
        self.was_ready = self.was_ready or self.is_ready
        self.problem = "" if self.is_ready else ("not ready" if ready else "does not answer")


def status_of(address: tuple[str, int], page: str) -> int:
    """The status of a page of an admin listener, 0 when nobody answers in time."""
    connection = http.client.HTTPConnection(*address, timeout=PROBE_SECONDS)
    try:
        connection.request("GET", page)
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        connection.close()
