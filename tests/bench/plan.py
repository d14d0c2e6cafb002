"""What is measured: each case is one fresh process, and a round runs each case once."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
CASE_SECONDS_MAX = 300
IN_FLIGHT = (1, 16, 128)
MANY = 1000
SLOW = 0.2  # seconds before each reply, where a model's thinking is imitated
STEPS = 200
SERVERS_OF_QUEUES = ("postgresql", "redis", "nats", "rabbitmq")
LOOPS = ("aiohttp", "httpx", "transport", "lean", "lean-own", "lean-told", "worker")

SERVERS = {
    "fast": [],
    "slow": ["--latency", str(SLOW)],
    "long": ["--calls", str(STEPS - 1)],
}


@dataclass(frozen=True, slots=True)
class Case:
    """One child process: the module below tests.bench, its arguments, the server it talks to."""

    name: str
    module: str
    arguments: tuple[str, ...] = ()
    server: str | None = None

    def command(self, urls: dict[str, str]) -> list[str]:
        """Return the command line."""
        to = ["--url", urls[self.server]] if self.server else []
        return [sys.executable, "-m", f"tests.bench.{self.module}", *self.arguments, *to]

    def shown(self) -> str:
        """Return the command as a reader would type it."""
        to = [f"--url http://127.0.0.1:PORT/v1 # {self.server} server"] if self.server else []
        return " ".join(["python -m", f"tests.bench.{self.module}", *self.arguments, *to])


def loops(kind: str, concurrency: int, *, scale: float, more: tuple[str, ...] = ()) -> Case:
    """Return the case of one kind of loop; the slowest kind gets fewer loops."""
    count = 150 if kind == "httpx" and concurrency > 1 else 300 if concurrency == 1 else 600
    arguments = (kind, "--concurrency", str(concurrency), "--count", str(int(count * scale)))
    return Case(f"{kind} c={concurrency}", "loops", (*arguments, *more), "fast")


def has_uvloop() -> bool:
    """Say whether the extra `fast` is installed; `loopworker run` uses it then."""
    return importlib.util.find_spec("uvloop") is not None


def cases(scale: float) -> list[Case]:
    """Return all cases. `scale` multiplies the number of loops."""
    found: list[Case] = []
    for concurrency in IN_FLIGHT:
        for kind in LOOPS:
            found.append(loops(kind, concurrency, scale=scale))
        normal = loops("worker", concurrency, scale=scale, more=("--synchronous", "normal"))
        found.append(Case(f"worker-normal c={concurrency}", "loops", normal.arguments, "fast"))
        for kind in ("lean", "worker") if has_uvloop() else ():
            quick = loops(kind, concurrency, scale=scale, more=("--uvloop",))
            found.append(Case(f"{kind}-uvloop c={concurrency}", "loops", quick.arguments, "fast"))
    timed = ("worker", "--latency", "--count", str(int(500 * scale)))
    found.append(Case("worker latency", "loops", timed, "fast"))
    many = ("--concurrency", str(MANY), "--memory", "--count", str(int(1500 * scale)))
    for kind in ("aiohttp", "lean", "worker"):
        found.append(Case(f"{kind} many", "loops", (kind, "--warm", "1000", *many), "slow"))
    found.append(Case("guarded", "guarded"))
    found.append(Case("reading", "reading"))
    found.append(Case("ready", "ready"))
    for synchronous in ("full", "normal"):
        for kind in ("raw", "worker"):
            arguments = (kind, "--synchronous", synchronous)
            found.append(Case(f"queue {kind} {synchronous}", "queueing", arguments))
    for engine in SERVERS_OF_QUEUES:
        found.append(Case(f"queue {engine}", "queueing", ("worker", "--engine", engine)))
    found.append(Case("steps", "steps", (), "long"))
    return found


@contextmanager
def servers() -> Iterator[dict[str, str]]:
    """Run the model servers; yields their base URLs by name."""
    running: list[subprocess.Popen[str]] = []
    try:
        urls = {}
        for name, arguments in SERVERS.items():
            command = [sys.executable, "-m", "tests.bench.mockmodel", *arguments]
            process = subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            running.append(process)
            assert process.stdout is not None
            urls[name] = f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
        yield urls
    finally:
        for process in running:
            process.kill()
            process.communicate()


def run(case: Case, urls: dict[str, str]) -> dict[str, Any]:
    """Run a case in a fresh process and return its figures; raises RuntimeError if it fails."""
    done = subprocess.run(
        case.command(urls),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=CASE_SECONDS_MAX,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{case.name} failed:\n{done.stderr[-3000:]}")
    return dict(json.loads(done.stdout.splitlines()[-1]))
