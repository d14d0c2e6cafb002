"""What is measured: each case is one fresh process, and a round runs each case once."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.servers.redisserver import redis_server

ROOT = Path(__file__).resolve().parents[2]
CASE_SECONDS_MAX = 300
IN_FLIGHT = (1, 16, 128)
MANY = 1000
SLOW = 0.2  # seconds before each reply, where a model's thinking is imitated
STEPS = 200
SERVERS_OF_QUEUES = ("postgresql", "redis", "nats", "rabbitmq")
PEERS = ("arq", "faststream", "taskiq")
PEERS_PYTHON = ROOT / ".venv-bench" / "bin" / "python"
QUEUED = (5000, 100_000)  # tasks; the first is what a round needs anyway
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
    python: Path = Path(sys.executable)

    def command(self, urls: dict[str, str]) -> list[str]:
        """Return the command line."""
        to = ["--url", urls[self.server]] if self.server else []
        return [str(self.python), "-m", f"tests.bench.{self.module}", *self.arguments, *to]

    def shown(self) -> str:
        """Return the command as a reader would type it."""
        url = "redis://127.0.0.1:PORT/0" if self.server == "redis" else "http://127.0.0.1:PORT/v1"
        to = [f"--url {url} # {self.server} server"] if self.server else []
        python = ".venv-bench/bin/python" if self.python == PEERS_PYTHON else "python"
        return " ".join([python, "-m", f"tests.bench.{self.module}", *self.arguments, *to])


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
    found += [*beside(scale), *filled(scale)]
    found.append(Case("steps", "steps", (), "long"))
    return found


def beside(scale: float) -> Iterator[Case]:
    """Task queues on one Redis server, one with a worker's guarantees and three without."""
    tasks = ("--count", str(int(3000 * scale)), "--warm", "300")
    few = ("--latency", "--count", str(int(400 * scale)))
    ours = ("worker", "--concurrency", "64")
    yield Case("redis worker", "queueing", (*ours, *tasks), "redis")
    yield Case("redis worker quiet", "queueing", (*ours, "--quiet", *tasks), "redis")
    yield Case("redis worker latency", "queueing", (*ours, "--quiet", *few), "redis")
    for kind in PEERS:
        yield Case(f"redis {kind}", "peers", (kind, *tasks), "redis", PEERS_PYTHON)
        yield Case(f"redis {kind} latency", "peers", (kind, *few), "redis", PEERS_PYTHON)


def filled(scale: float) -> Iterator[Case]:
    """A worker with 1,000 in flight, before a short queue and before a long one."""
    for queued in QUEUED:
        thinks = ("worker", "--concurrency", str(MANY), "--thinks", "0.1", "--warm", str(MANY))
        more = ("--count", str(int(3000 * scale)), "--queued", str(queued))
        yield Case(f"queued sqlite {queued}", "queueing", (*thinks, *more))
        yield Case(f"queued redis {queued}", "queueing", (*thinks, *more), "redis")


def prepare_peers() -> None:
    """Install the other queues into an environment of their own, if they are not there yet.

    Raises RuntimeError when that cannot be done.
    """
    wanted = Path(__file__).with_name("peers.txt")
    marker = PEERS_PYTHON.parent.parent / "installed.txt"
    if marker.is_file() and marker.read_text() == wanted.read_text():
        return
    venv.create(marker.parent, with_pip=True, clear=True)
    command = [str(PEERS_PYTHON), "-m", "pip", "install", "--quiet", "-r", str(wanted)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{wanted.name} could not be installed:\n{done.stderr[-2000:]}")
    marker.write_text(wanted.read_text())


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
        with tempfile.TemporaryDirectory() as made, redis_server(Path(made)) as server:
            yield urls | {"redis": f"redis://127.0.0.1:{server.port}/0"}
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
