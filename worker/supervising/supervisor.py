"""Keep a number of worker processes running until told to stop.

Each process is a whole worker of its own; they share the queue, the store and the address of the
API. The supervisor does no work: it restarts what ends, kills what is stuck, passes log lines on,
and says whether all of them are ready (decisions.md 17). When it is killed, they drain by themselves.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Sequence

from worker.core.errors import ConfigError
from worker.supervising.child import Child, Inherited
from worker.supervising.lines import LinePump
from worker.telemetry.signals import ProcessChanged, WorkerChanged
from worker.telemetry.tell import Telemetry
from worker.web.admin import HealthReport, ReadyReport

PROBE_EVERY_SECONDS = 0.5
UNWELL_PROBES = 5  # in a row, each with its own time limit: then it is stuck
RESTART_SECONDS = 1.0  # doubled with each restart in a row
RESTART_SECONDS_MAX = 30.0
SOUND_SECONDS = 60.0  # who lived so long starts at the first delay again
GRACE_SECONDS = 15.0  # beyond the drain time, for handing back and telemetry
# The last two: it was told to end before it had begun, and so had nothing to hand back.
ENDED_WELL = (0, -signal.SIGTERM, 130)
USAGE = 2  # the exit code of a process that cannot be set up so; trying again changes nothing


class Supervisor:
    """Runs children until `stop`; `run` returns the exit code for the whole.

    `clock` is monotonic seconds. `drain_seconds` is how long a child may take to end by itself.
    """

    def __init__(
        self,
        children: Sequence[Child],
        *,
        inherited: Inherited,
        pump: LinePump,
        telemetry: Telemetry,
        clock: Callable[[], float],
        drain_seconds: float,
    ) -> None:
        self.children = children
        self.state = "starting"
        self._inherited = inherited
        self._pump = pump
        self._telemetry = telemetry
        self._clock = clock
        self._drain_seconds = drain_seconds
        self._stopping = asyncio.Event()
        self._ticked_at = clock()
        self._code = 0

    def __repr__(self) -> str:
        return f"Supervisor({self.state}; {sum(c.is_alive for c in self.children)} alive)"

    def stop(self) -> None:
        """Ask every process to drain; the second time, to hand everything back at once."""
        if self.state != "draining":
            self._change("draining")
        self._stopping.set()
        for child in self.children:
            child.send(signal.SIGTERM)

    def health(self) -> HealthReport:
        """How long ago the supervisor itself last looked around."""
        return HealthReport(self._clock() - self._ticked_at, limit_seconds=30.0)

    def ready(self) -> ReadyReport:
        """Ready when every process is."""
        waiting = [child for child in self.children if not child.is_ready]
        if self.state == "draining" or not waiting:
            return ReadyReport(self.state == "running" and not waiting, self.state)
        told = ", ".join(f"process {child.number}: {child.problem}" for child in waiting)
        return ReadyReport(False, "starting" if self.state == "starting" else "running", told)

    async def run(self) -> int:
        """Start the processes and keep them up until `stop`. Returns the exit code.

        Raises OSError when a process cannot be started. Cancelled: all processes are killed.
        """
        self._change("starting")
        watching = asyncio.create_task(self._watch(), name="probes")
        try:
            async with asyncio.TaskGroup() as group:
                for child in self.children:
                    group.create_task(self._keep(child), name=f"process {child.number}")
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from None
        finally:
            watching.cancel()
            for child in self.children:
                child.send(signal.SIGKILL)
            await asyncio.gather(*(child.gone() for child in self.children))
            self._change("stopped")
        return self._code

    async def _keep(self, child: Child) -> None:
        """Run the process of one number again and again."""
        while not self._stopping.is_set():
            await child.start(self._inherited, self._pump, now=self._clock())
            assert child.process is not None
            self._tell(child, "started")
            if self._stopping.is_set():
                child.send(signal.SIGTERM)  # told to stop while it was being started
            code = await self._end_of(child)
            child.is_ready, child.problem = False, "ended"
            if self._stopping.is_set():
                self._code = max(self._code, 0 if code in ENDED_WELL else 1)
                self._tell(child, "ended", code=code)
                return
            if code == USAGE and self.state == "starting":
                # It has said why; the others would end in the same way.
                self._code = USAGE
                self._tell(child, "ended", code=code)
                self.stop()
                return
            delay = self._delay(child)
            self._tell(child, "restarting", code=code, delay=delay)
            await self._rest(delay)

    async def _end_of(self, child: Child) -> int:
        assert child.process is not None
        ended = asyncio.create_task(child.process.wait())
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait((ended, stopping), return_when=asyncio.FIRST_COMPLETED)
            limit = self._drain_seconds + GRACE_SECONDS
            await asyncio.wait((ended,), timeout=limit)
            if not ended.done():
                self._tell(child, "killed", reason=f"it did not end within {limit:g} s")
                child.send(signal.SIGKILL)
            return await ended
        finally:
            stopping.cancel()
            ended.cancel()

    def _delay(self, child: Child) -> float:
        if self._clock() - child.started_at >= SOUND_SECONDS:
            child.restarts = 0
        delay = min(RESTART_SECONDS * 2.0**child.restarts, RESTART_SECONDS_MAX)
        child.restarts += 1
        return delay

    async def _rest(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            pass

    async def _watch(self) -> None:
        """Ask all processes how they are, and kill those that are stuck."""
        while True:
            self._ticked_at = self._clock()
            alive = [child for child in self.children if child.is_alive]
            await asyncio.gather(*(child.probe() for child in alive))
            for child in alive:
                if self._stopping.is_set():
                    break  # who ends lets go of its listener first; `_end_of` sees that it ends
                if child.unwell >= UNWELL_PROBES and child.is_alive:
                    child.unwell = 0
                    self._tell(child, "killed", reason="it is stuck: its health check fails")
                    child.send(signal.SIGKILL)
            if self.state == "starting" and all(child.is_ready for child in self.children):
                self._change("running")
            await asyncio.sleep(PROBE_EVERY_SECONDS)

    def _change(self, state: str) -> None:
        self.state = state
        self._telemetry.tell(WorkerChanged(state, {"processes": len(self.children)}))

    def _tell(
        self,
        child: Child,
        change: str,
        *,
        code: int | None = None,
        delay: float = 0.0,
        reason: str = "",
    ) -> None:
        pid = child.process.pid if child.process else 0
        self._telemetry.tell(ProcessChanged(child.number, pid, change, code, delay, reason))


def addresses(admin: tuple[str, int] | None, count: int) -> list[tuple[str, int] | None]:
    """The admin address of each process: that of the supervisor, with its number added to the port.

    Raises ConfigError when there are not so many ports.
    """
    if admin is None:
        return [None] * count
    host, port = admin
    if port == 0 or port + count > 65_535:
        raise ConfigError(
            f"LOOPWORKER_ADMIN: with --processes {count}, process i listens on this port + i; "
            f"{port} leaves no room for that, so name a port from 1 to {65_535 - count}"
        )
    return [(host, port + number) for number in range(1, count + 1)]
