"""Commands on a queue that is split, and what doctor says of shards that nobody reads."""

from __future__ import annotations

import json
import subprocess
import sys

DYING = """
import asyncio, json, os, sys
from worker.core.sharding import Sharding
from worker.queues import open_queue

async def claim(url, shards):
    queue = open_queue(url, **({"sharding": Sharding(**shards)} if shards else {}))
    leases = await queue.claim(owner="w", lease_seconds=600, wait_seconds=0, limit=100)
    print(json.dumps(sorted(lease.id for lease in leases)), flush=True)
    os._exit(1)

asyncio.run(claim(sys.argv[1], json.loads(sys.argv[2])))
"""


def claim(url, **shards):
    """Claim what there is, as a worker that dies: in a process of its own."""
    command = [sys.executable, "-c", DYING, url, json.dumps(shards)]
    died = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return json.loads(died.stdout)


def submit(cli, count):
    """Hand tasks in that are spread over all shards."""
    for number in range(count):
        assert cli("submit", "--id", f"t{number}", "hi").code == 0


def test_tasks_go_into_shards_and_are_found_there(cli, tmp_path, monkeypatch):
    """By whoever submits and asks, under the same settings."""
    monkeypatch.setenv("LOOPWORKER_QUEUE_SHARDS", "4")
    submit(cli, 12)

    assert json.loads(cli("status", "t5", "--json").out)["status"] == "queued"
    url = f"sqlite:///{tmp_path / 'cli.db'}"
    first = claim(url)
    assert 0 < len(first) < 12
    rest = claim(url, count=4)
    assert sorted(first + rest) == sorted(f"t{n}" for n in range(12))


def test_doctor_tells_of_shards_that_nobody_reads(cli, tmp_path, monkeypatch):
    """Where others are worked at: without any worker it is no fault of a shard."""
    monkeypatch.setenv("LOOPWORKER_QUEUE_SHARDS", "4")
    submit(cli, 12)
    assert "odd   shards" not in cli("doctor", "--no-probe").out
    claim(f"sqlite:///{tmp_path / 'cli.db'}", count=4, only=(0, 1, 2))

    lines = cli("doctor", "--no-probe").out.splitlines()
    (line,) = [each for each in lines if each.split()[:2] == ["odd", "shards"]]
    assert "tasks-shard-3 (" in line
    assert "tasks-shard-2" not in line


def test_doctor_tells_of_shards_that_were_left(cli, monkeypatch):
    """A split that got narrower leaves tasks where nobody looks; the way out is said with it."""
    monkeypatch.setenv("LOOPWORKER_QUEUE_SHARDS", "4")
    submit(cli, 12)
    monkeypatch.setenv("LOOPWORKER_QUEUE_SHARDS", "1")
    told = cli("doctor", "--no-probe").out

    assert "tasks-shard-1, tasks-shard-2, tasks-shard-3, beyond LOOPWORKER_QUEUE_SHARDS" in told
    assert "LOOPWORKER_QUEUE_SHARD_SET=0-3" in told
    monkeypatch.setenv("LOOPWORKER_QUEUE_SHARD_SET", "0-3")
    assert "beyond" not in cli("doctor", "--no-probe").out
