"""Wall time from the start of `loopworker run` to the first /readyz that says 200.

`python -m tests.bench.ready` prints one JSON object, with the time of an empty interpreter beside.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIMIT_SECONDS = 20.0


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def is_ready(port: int) -> bool:
    """Ask once."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1.0)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def seconds_to_ready() -> float:
    """Start a worker in an empty folder and ask until it is ready."""
    port, api = free_port(), free_port()
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "LOOPWORKER_ADMIN": f"127.0.0.1:{port}",
            "LOOPWORKER_HTTP": f"127.0.0.1:{api}",
            "LOOPWORKER_MODEL_URL": "http://127.0.0.1:9/v1",
            "LOOPWORKER_QUEUE_URL": f"sqlite:///{folder}/ready.db",
        }
        began = time.perf_counter()
        worker = subprocess.Popen(
            [sys.executable, "-m", "worker", "run"],
            cwd=folder,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            while not is_ready(port):
                if worker.poll() is not None or time.perf_counter() - began > LIMIT_SECONDS:
                    raise RuntimeError(f"the worker did not become ready: {worker.poll()}")
                time.sleep(0.005)
            return time.perf_counter() - began
        finally:
            worker.terminate()
            worker.wait()


def seconds_of_nothing() -> float:
    """Return how long an interpreter takes to start and end."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    return time.perf_counter() - began


def main() -> None:
    """Measure and print."""
    nothing = seconds_of_nothing()
    print(json.dumps({"ready_s": seconds_to_ready(), "python_s": nothing}))


if __name__ == "__main__":
    main()
