"""The worker as a process: it answers, tells its health, drains on SIGTERM; and the demo."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from worker.model.offline import OfflineModel

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.system


def free_port() -> int:
    """Find a port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


class Machine:
    """A folder, an environment, and the commands typed there."""

    def __init__(self, folder: Path, model_url: str) -> None:
        self.folder = folder
        self.processes: list[subprocess.Popen[bytes]] = []
        self.env = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT),
            "LOOPWORKER_ADMIN": f"127.0.0.1:{free_port()}",
            "LOOPWORKER_HTTP": f"127.0.0.1:{free_port()}",
            "LOOPWORKER_MODEL_URL": model_url,
            "LOOPWORKER_QUEUE_URL": f"sqlite:///{folder / 'tasks.db'}",
        }

    def type(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run one command to its end."""
        return subprocess.run(
            [sys.executable, "-m", "worker", *words],
            env=self.env,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
        )

    def start(self) -> subprocess.Popen[bytes]:
        """Start a worker and wait until it is ready."""
        with (self.folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "worker", "run", "--concurrency", "4"],
                env=self.env,
                cwd=self.folder,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self.processes.append(process)
        ends = time.monotonic() + 20
        while self.type("health", "--ready").returncode != 0:
            assert process.poll() is None, (self.folder / "log").read_text()
            assert time.monotonic() < ends, "the worker never became ready"
        return process


@pytest.fixture
def machine(tmp_path):
    """A machine with the offline model on it."""
    server = OfflineModel(port=0)
    server.start()
    machine = Machine(tmp_path, server.url)
    yield machine
    for process in machine.processes:
        process.kill()
        process.wait(10)
    server.stop()


def test_worker_answers_and_drains(machine):
    """A worker answers what was submitted beside it and exits 0 on SIGTERM; the rest keeps."""
    worker = machine.start()
    waited = machine.type("submit", "现在北京时间几点?", "--wait", "--id", "t")
    guards = machine.type("guard")
    worker.send_signal(signal.SIGTERM)
    code = worker.wait(20)
    later = machine.type("status", "t")
    health = machine.type("health")

    assert (waited.returncode, "Asia/Shanghai" in waited.stdout) == (0, True)
    assert "quote" in guards.stdout
    assert code == 0
    assert (later.returncode, later.stdout) == (0, waited.stdout)
    assert health.returncode == 1


def test_every_line_of_the_worker_is_json(machine):
    """Between start and stop the worker writes JSON lines and nothing else."""
    worker = machine.start()
    machine.type("submit", "What time is it in UTC?", "--wait")
    worker.send_signal(signal.SIGINT)
    code = worker.wait(20)
    lines = (machine.folder / "log").read_text().splitlines()
    events = [json.loads(line)["event"] for line in lines]

    assert code == 0
    assert {"worker.start", "task.received", "agent.loop.end", "worker.stop"} <= set(events)


def test_a_worker_without_mcp_servers_loads_nothing_of_them(machine):
    """From its start over a task to its end: neither the SDK nor what we have around it.

    Nor the drivers of engines that it has not been given. And a command at its side loads nothing
    of what runs tasks and judges answers.
    """
    machine.env["PYTHONPROFILEIMPORTTIME"] = "1"
    worker = machine.start()
    answered = machine.type("submit", "现在北京时间几点?", "--wait")
    worker.send_signal(signal.SIGTERM)
    code = worker.wait(20)
    log = (machine.folder / "log").read_text()
    loaded, by_submit = [
        set(re.findall(r"^import time:.*\|\s+([\w.]+)$", told, re.MULTILINE))
        for told in (log, answered.stderr)
    ]

    assert (answered.returncode, code) == (0, 0)
    assert "worker.assembly" in loaded
    assert loaded & {"mcp", "mcp_types", "httpx2", "worker.mcp"} == set()
    assert loaded & {"psycopg", "redis.client"} == set()
    assert "worker.web.desk" in by_submit
    assert by_submit & {"worker.app", "worker.core.gate", "worker.running.runner"} == set()


LOUD = '''
import logging, warnings
from worker import tool

@tool(effect="read")
def current_time() -> str:
    """The current time in a zone."""
    logging.getLogger("shop").warning("asked with token=%s", "sk-live-0123456789abcdef0123")
    warnings.warn("this way is old")
    return "12:00"
'''


def test_what_tools_log_comes_out_as_lines_without_secrets(machine):
    """Standard logging and warnings within a tool go the way of our own lines, masked."""
    file = machine.folder / "loud.py"
    file.write_text(LOUD)
    machine.env["LOOPWORKER_TOOLS"] = str(file)
    machine.start()
    asked = machine.type("submit", "现在几点?", "--wait")
    written = (machine.folder / "log").read_text()
    lines = [json.loads(line) for line in written.splitlines()]
    said = {line["logger"]: line for line in lines if line["event"] == "log.message"}

    assert asked.returncode == 0, asked.stderr
    assert said["shop"]["message"].startswith("asked with token=")
    assert said["shop"]["task_id"] == said["py.warnings"]["task_id"] != ""
    assert "sk-live-0123456789abcdef0123" not in written


def test_demo_shows_it_all(tmp_path):
    """The demo needs no key, shows a breaker open and close, checks itself and exits 0."""
    began = time.monotonic()
    ran = subprocess.run(
        [sys.executable, "-m", "worker", "demo"],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stderr == ""
    assert "closed → open → half_open → closed" in ran.stdout
    assert "行情暂不可用" in ran.stdout
    assert "✗" not in ran.stdout
    assert "\033[" not in ran.stdout
    assert list(tmp_path.iterdir()) == []
    assert time.monotonic() - began < 40
