"""Workers as processes, the folder they share, and what they left in it.

No test sleeps: `until` waits for a condition and fails, with the logs, when its time is over.
Times are for a machine that has a core for each process; on a busier one they are longer.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.servers.server import free_ports
from tests.system.planmodel import PlanModel
from worker.core.task import Result
from worker.queues import open_queue
from worker.queues.port import Depth, Queue, Ticket
from worker.store import open_store
from worker.store.port import Store

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
WORKER = (sys.executable, "-m", "worker", "run")
CRASHING = (sys.executable, str(HERE / "crashing_worker.py"))
PATIENCE_MAX = 4.0
EMPTY = (0, 0, 0, 0, 0)  # ready, delayed, leased, parked, dead


async def until(
    holds: Callable[[], Any] | Callable[[], Awaitable[Any]], *, within: float, what: str
) -> Any:
    """Wait until the condition is true and return its value; fail after `within` seconds.

    On a machine with more to do than it has cores, `within` grows with what it has to do.
    """
    began, patience = time.monotonic(), 1.0
    while True:
        value: Any = holds()
        if isinstance(value, Awaitable):
            value = await value
        if value:
            return value
        patience = max(patience, busy())
        waited = time.monotonic() - began
        assert waited < within * patience, f"not within {within * patience:g} s: {what}"
        await asyncio.sleep(0.02)


def busy() -> float:
    """How many times slower than alone a process may be here, from 1 to `PATIENCE_MAX`."""
    waiting = os.getloadavg()[0] / (os.cpu_count() or 1)
    return min(max(1.0, 1.5 * waiting), PATIENCE_MAX)


@dataclass
class Process:
    """One worker; `admin` and `http` are its addresses where it listens."""

    name: str
    popen: subprocess.Popen[bytes]
    log: Path
    admin: str | None = None
    http: str | None = None

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self.popen.poll() is None

    def send(self, number: int) -> None:
        """Send a signal, if there is still somebody to get it."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.popen.pid, number)

    def kill(self) -> None:
        """End it as a loss of power would."""
        self.send(signal.SIGKILL)
        self.popen.wait(10)

    def freeze(self) -> None:
        """Stop it where it stands, and come back when every thread of it does."""
        self.send(signal.SIGSTOP)
        os.waitid(os.P_PID, self.popen.pid, os.WSTOPPED)

    async def ended(self, *, within: float) -> int:
        """Wait for its end and return its exit code (-9 after a kill)."""
        what = f"the end of {self.name}"
        await until(lambda: not self.alive, within=within, what=what)
        return int(self.popen.returncode)

    async def stop(self, *, within: float = 15.0) -> int:
        """Ask it to drain and return its exit code."""
        self.send(signal.SIGTERM)
        return await self.ended(within=within)

    def lines(self) -> list[dict[str, Any]]:
        """The log, one object for each whole line."""
        raw = self.log.read_bytes() if self.log.exists() else b""
        whole = raw[: raw.rfind(b"\n") + 1].splitlines()
        return [json.loads(line) for line in whole if line.startswith(b"{")]

    def events(self) -> list[str]:
        """The names of the lines in the log."""
        return [line["event"] for line in self.lines()]

    async def said(self, event: str, *, within: float = 10.0) -> None:
        """Wait for a line in the log; lines come a moment after what they tell of."""
        what = f"{event} in the log of {self.name}"
        await until(lambda: event in self.events(), within=within, what=what)

    def ask(self, page: str) -> tuple[int, str]:
        """GET a page of the admin listener: status (0: nobody answers) and body."""
        try:
            with urllib.request.urlopen(f"http://{self.admin}{page}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except OSError:
            return 0, ""

    async def ready(self, *, within: float = 20.0) -> None:
        """Wait until it claims."""

        def is_ready() -> bool:
            assert self.alive, f"{self.name} ended with {self.popen.returncode}"
            return self.ask("/readyz")[0] == 200

        await until(is_ready, within=within, what=f"{self.name} to be ready")


class Site:
    """A folder with a queue file and effects, a model to ask, and the workers at it.

    `queue` and `store` are this test's own view of the same file; `queue_url` names another queue,
    `store_url` another store: with the same for both, nothing is in a file.
    """

    def __init__(
        self,
        folder: Path,
        model: PlanModel,
        *,
        queue_url: str | None = None,
        store_url: str | None = None,
    ) -> None:
        self.folder = folder
        self.model = model
        self.processes: list[Process] = []
        self.url = f"sqlite:///{folder / 'tasks.db'}"
        self.queue_url = queue_url or self.url
        self.queue: Queue = open_queue(self.queue_url)
        self.store_url = store_url or self.url
        self.store: Store = open_store(self.store_url)
        (folder / "effects").touch()

    def environment(self, **more: str) -> dict[str, str]:
        """What a worker of this site finds set; `more` without the prefix, or with OTEL_."""
        prefixed = {k if k.startswith("OTEL_") else f"LOOPWORKER_{k}": v for k, v in more.items()}
        return {
            "EFFECTS": str(self.folder),
            "LOOPWORKER_ADMIN": "off",
            "LOOPWORKER_HTTP": "off",
            "LOOPWORKER_LOG_LEVEL": "debug",
            "LOOPWORKER_MODEL_URL": self.model.url,
            "LOOPWORKER_QUEUE_URL": self.queue_url,
            "LOOPWORKER_QUEUE__BACKOFF_SECONDS": "0.1",
            "LOOPWORKER_QUEUE__LEASE_SECONDS": "1",
            "LOOPWORKER_QUEUE__POLL_SECONDS": "0.2",
            "LOOPWORKER_TOOLS": str(HERE / "effects.py"),
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT),
            **self._store_setting(),
            **prefixed,
        }

    def _store_setting(self) -> dict[str, str]:
        if self.store_url == self.queue_url:
            return {}  # the queue's engine is the default
        return {"LOOPWORKER_STORE_URL": self.store_url}

    def start(
        self,
        command: Sequence[str] = WORKER,
        *,
        admin: int = False,
        http: bool = False,
        stdout: Any = None,
        **settings: str,
    ) -> Process:
        """Start a process with its log beside the queue; it is ended with the test.

        `admin` says how many ports in a row the admin listeners need.
        """
        name = f"worker-{len(self.processes) + 1}"
        addresses = {
            key: f"127.0.0.1:{free_ports(count)}"
            for key, count in (("ADMIN", int(admin)), ("HTTP", int(http)))
            if count
        }
        log = self.folder / f"{name}.log"
        with log.open("wb") as file:
            popen = subprocess.Popen(
                command,
                cwd=self.folder,
                env=self.environment(**addresses, **settings),
                stdin=subprocess.DEVNULL,
                stdout=file if stdout is None else stdout,
                stderr=file,
            )
        process = Process(name, popen, log, addresses.get("ADMIN"), addresses.get("HTTP"))
        self.processes.append(process)
        return process

    async def run(self, *words: str, **settings: str) -> subprocess.CompletedProcess[str]:
        """Type a command and wait for its end."""
        return await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-m", "worker", *words],
            cwd=self.folder,
            env=self.environment(**settings),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )

    async def submit(self, task_id: str, plan: str = "", **fields: Any) -> None:
        """Hand a task in whose plan carries its id as the name."""
        task = {"id": task_id, "input": f"{task_id}: {plan}", **fields}
        await self.put(task_id, json.dumps(task).encode())

    async def put(self, task_id: str, body: bytes) -> None:
        """Put any bytes into the queue."""
        assert await self.queue.put(Ticket(id=task_id, body=body))

    async def result(self, task_id: str, *, within: float) -> Result:
        """Wait for the result of a task."""
        what = f"a result of {task_id}"
        result: Result = await until(lambda: self.store.result(task_id), within=within, what=what)
        return result

    async def empty(self, *, within: float = 5.0, dead: int = 0) -> None:
        """Wait until the queue holds nothing but so many dead letters."""

        async def is_empty() -> bool:
            return counts(await self.queue.depth()) == (*EMPTY[:-1], dead)

        await until(is_empty, within=within, what="an empty queue")

    def effects(self, name: str | None = None) -> list[str]:
        """The effects so far as `NAME TEXT`, in order; only those of one tool, if it is named."""
        rows = [line.split() for line in (self.folder / "effects").read_text().splitlines()]
        return [f"{row[0]} {' '.join(row[1:-1])}" for row in rows if name in (None, row[0])]

    def keys(self, name: str) -> list[str]:
        """The idempotency keys that a tool was called with, in order."""
        rows = [line.split() for line in (self.folder / "effects").read_text().splitlines()]
        return [row[-1] for row in rows if row[0] == name]

    async def effect(self, line: str, *, within: float = 10.0, times: int = 1) -> None:
        """Wait until an effect has happened so often."""
        await until(
            lambda: self.effects().count(line) >= times, within=within, what=f"{line} x{times}"
        )

    def ask_for(self, harm: str) -> None:
        """Leave the file that a tool looks for."""
        (self.folder / harm).touch()

    async def close(self) -> None:
        """End every process and let go of the file."""
        for process in self.processes:
            process.kill()
        await self.queue.close()
        await self.store.close()

    def report(self) -> str:
        """What the processes said last, for whoever reads the failure."""
        parts = [f"asked: {self.model.asked[-30:]}", f"effects: {self.effects()[-30:]}"]
        for each in self.processes:
            state = "runs" if each.alive else f"ended with {each.popen.returncode}"
            said = each.log.read_text("utf-8", "replace")[-4000:] if each.log.exists() else ""
            parts.append(f"--- {each.name} {state}\n{said}")
        return "\n".join(parts)


def counts(depth: Depth) -> tuple[int, int, int, int, int]:
    """The numbers of a depth: ready, delayed, leased, parked, dead."""
    return depth.ready, depth.delayed, depth.leased, depth.parked, depth.dead
