"""`loopworker run --processes N`: one address, whole lines, nobody lost, no process left behind."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import urllib.request

from tests.system.processes import WORKER, Process, until

TWO = (*WORKER, "--processes", "2")


def pids(whole: Process) -> dict[int, int]:
    """The processes by their number, as last told."""
    started = [each for each in whole.lines() if each["event"] == "worker.process.start"]
    return {each["process"]: each["process_pid"] for each in started}


async def test_they_share_the_work_and_one_that_is_killed_is_replaced(site):
    """Ready when all are; a task of a killed process is finished, and its place is filled."""
    whole = site.start(TWO, admin=3, http=True)
    await whole.ready(within=30)
    assert await asyncio.to_thread(hand_in, whole, "t-0", "book a, hold later, book b") == 202
    await site.submit("t-1", "book a, hold later, book b")
    await until(lambda: site.effects().count("hold later") == 2, within=10, what="both to be held")
    numbers = {f"{socket.gethostname()}:{pid}": pid for pid in pids(whole).values()}
    received = [each for each in whole.lines() if each["event"] == "task.received"]
    os.kill(numbers[received[0]["worker_id"]], signal.SIGKILL)
    await whole.said("worker.process.restart")
    site.ask_for("later")
    results = [await site.result(f"t-{number}", within=20) for number in range(2)]
    await whole.ready(within=30)
    host, _, port = (whole.admin or "").partition(":")
    metrics = whole.ask("/metrics")[1]
    code = await whole.stop()

    assert [result.status for result in results] == ["completed"] * 2
    assert sorted(site.effects("book")) == ["book a"] * 2 + ["book b"] * 2
    assert [f"{host}:{int(port) + n}/metrics" in metrics for n in range(4)] == [
        False,
        True,
        True,
        False,
    ]
    assert code == 0
    assert all(json.loads(line) for line in whole.log.read_bytes().splitlines())


async def test_when_the_supervisor_is_killed_the_others_drain(site):
    """kill -9 of the first process leaves no worker behind that nobody looks after."""
    whole = site.start(TWO, admin=3)
    await whole.ready(within=30)
    left = pids(whole).values()
    whole.kill()

    for pid in left:
        await until(lambda pid=pid: not is_there(pid), within=15, what=f"the end of {pid}")


async def test_a_port_that_is_taken_is_a_clear_error(site):
    """What one of them cannot have ends all, with a line that says what and where."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = await site.run("run", "--processes", "2", ADMIN=f"127.0.0.1:{port - 2}")

    assert done.returncode == 2
    assert f"127.0.0.1:{port}" in done.stderr
    assert "Traceback" not in done.stderr


def hand_in(whole: Process, task_id: str, plan: str) -> int:
    """Post a task to the address that all processes share; the status of the answer."""
    body = json.dumps({"id": task_id, "input": f"{task_id}: {plan}"}).encode()
    url, headers = f"http://{whole.http}/v1/tasks", {"Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=10) as answer:
        return int(answer.status)


def is_there(pid: int) -> bool:
    """Whether a process exists that has not ended."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
