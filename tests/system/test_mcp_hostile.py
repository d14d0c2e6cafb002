"""Servers that die, hang, flood and spawn, under a whole worker: nothing twice, nothing left."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections import Counter

import pytest

from tests.servers.server import free_port
from tests.system.mcpsite import hostile, is_there, notes, over_http, started
from tests.system.processes import ROOT, until

# Many processes that import an SDK each: on a busy machine they take their time.
pytestmark = pytest.mark.timeout(180)


def sources(result):
    """Where each call's result came from, in call order."""
    return [(call.name.partition(".")[2], call.source) for call in result.tool_calls]


async def ready_server(worker, *, times=1):
    """Wait until the server has been connected to so often."""
    what = f"mcp.ready x{times}"
    await until(lambda: worker.events().count("mcp.ready") >= times, within=40, what=what)


async def test_a_server_that_dies_in_a_write_is_started_anew_and_nothing_runs_twice(site):
    """The outcome is unknown and said to be; the next task finds the server well."""
    worker = site.start(admin=True, **hostile(site.folder))
    await ready_server(worker)
    await site.submit("t", "h_write one, h_write_and_die two")
    result = await site.result("t", within=20)
    await ready_server(worker, times=2)
    await site.submit("u", "h_echo three")
    later = await site.result("u", within=20)

    assert sources(result) == [("write", "live"), ("write_and_die", "unknown")]
    assert [(d.tool, d.source) for d in result.degraded] == [("h.write_and_die", "unknown")]
    assert sources(later) == [("echo", "live")]
    counted = Counter(line for line in notes(site.folder) if not line.startswith("started"))
    assert counted == {"write one": 1, "write_and_die two": 1, "echo three": 1}
    assert len(started(site.folder)) == 2


async def test_a_server_that_hangs_is_killed_and_started_anew(site):
    """It does not answer the ping; its process is gone, a new one serves."""
    worker = site.start(admin=True, **hostile(site.folder))
    await ready_server(worker)
    await site.submit("t", "h_freeze now")
    result = await site.result("t", within=20)
    await ready_server(worker, times=2)
    old, new = started(site.folder)

    assert sources(result) == [("freeze", "unknown")]
    assert is_there(new)
    assert not is_there(old)
    assert await worker.stop() == 0
    await until(lambda: not is_there(new), within=5, what="the end of the server")


async def test_a_slow_server_keeps_its_session(site):
    """A call takes too long, but the server answers pings: only that call is lost."""
    worker = site.start(admin=True, **hostile(site.folder), GUARD__ATTEMPTS="1")
    await ready_server(worker)
    await site.submit("t", "h_hang x, h_echo still here")
    result = await site.result("t", within=20)

    assert sources(result) == [("hang", "error"), ("echo", "live")]
    assert len(started(site.folder)) == 1


async def test_what_no_server_should_say_does_no_harm(site):
    """Noise on the output, an answer that is none, and one that is too long."""
    settings = hostile(site.folder, MESSAGE_BYTES_MAX="200000", ENV__MY_TOKEN="v3ry-s3cret-t0ken")
    worker = site.start(admin=True, **settings)
    await ready_server(worker)
    await site.submit("t", "h_garbage x, h_malformed x, h_huge count=500000, h_echo well")
    result = await site.result("t", within=20)

    assert sources(result) == [
        ("garbage", "live"),
        ("malformed", "unknown"),
        ("huge", "error"),
        ("echo", "live"),
    ]
    assert len(started(site.folder)) == 1
    left_out = [e["tool_name"] for e in worker.lines() if e["event"] == "mcp.tool_left_out"]
    assert left_out == ["remote", "runaway", "deep", "wide"]
    await site.submit("u", "h_tell_secret MY_TOKEN")
    await site.result("u", within=20)
    assert await worker.stop() == 0
    log = worker.log.read_text()
    assert "what a server says of its secret" in log
    assert "v3ry-s3cret-t0ken" not in log


async def test_tools_that_come_are_offered_to_the_next_task(site):
    """The server says that they have changed; nobody restarts anything."""
    worker = site.start(admin=True, **hostile(site.folder))
    await ready_server(worker)
    await site.submit("t", "h_grow x")
    await site.result("t", within=20)

    def is_offered():
        told = [line for line in worker.lines() if line["event"] == "tool.undeclared"]
        return any("h.grown" in line["tool_name"] for line in told)

    await until(is_offered, within=10, what="the tool that has grown")
    await site.submit("u", "h_grown23 hello", tools=["h.grown23"])
    assert sources(await site.result("u", within=20)) == [("grown23", "live")]


@pytest.mark.parametrize("frozen", [False, True])
async def test_nothing_outlives_a_worker_that_is_killed(site, frozen):
    """Neither a server, nor one that hangs, nor the children of either, after `kill -9`."""
    worker = site.start(admin=True, **hostile(site.folder, TIMEOUT_SECONDS="30"))
    await ready_server(worker)
    await site.submit("t", "h_spawn x")
    await site.result("t", within=20)
    parent, child = map(int, site.model.told("t")[-1].split())
    if frozen:
        await site.submit("u", "h_freeze x")
        await until(lambda: "freeze x" in notes(site.folder), within=10, what="the freeze")
    assert is_there(parent)
    assert is_there(child)
    worker.kill()

    gone = lambda: not is_there(parent) and not is_there(child)  # noqa: E731
    await until(gone, within=15, what="the end of the server and its child")


async def test_nothing_outlives_a_worker_that_drains(site):
    """SIGTERM ends servers and their children, also while one hangs."""
    worker = site.start(
        admin=True, **hostile(site.folder, TIMEOUT_SECONDS="30"), WORKER__DRAIN_SECONDS="0.2"
    )
    await ready_server(worker)
    await site.submit("t", "h_spawn x")
    await site.result("t", within=20)
    parent, child = map(int, site.model.told("t")[-1].split())
    await site.submit("u", "h_freeze x")
    await until(lambda: "freeze x" in notes(site.folder), within=10, what="the freeze")
    assert await worker.stop(within=20) == 0

    assert not is_there(parent)
    assert not is_there(child)


# --- over HTTP ------------------------------------------------------------------------------------


class HttpServer:
    """The hostile server at an address, as somebody else would run it."""

    def __init__(self, site):
        self.port = free_port()
        self._site = site
        self._process = None

    def start(self):
        """Start it, or start it again."""
        with (self._site.folder / "http.log").open("ab") as log:
            notes_file = str(self._site.folder / "notes")
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.mcp.hostile", "http", notes_file, str(self.port)],
                cwd=ROOT,
                stdout=log,
                stderr=log,
            )

    def kill(self):
        """End it at once."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(10)


@pytest.fixture
async def http_server(site):
    """A server that is not started yet."""
    server = HttpServer(site)
    yield server
    await asyncio.to_thread(server.kill)


async def test_a_server_over_http_may_come_late_and_go_and_come_again(site, http_server):
    """The worker is ready without it, uses it, misses it, and has it back, without a restart."""
    key = "k3y-for-the-server"
    settings = over_http(http_server.port, HEADERS__X_KEY=key, RESTART_SECONDS_MAX="1", STUB="shut")
    worker = site.start(admin=True, **settings, GUARD__OPEN_SECONDS="1.1", GUARD__ATTEMPTS="2")
    await worker.ready(within=40)
    http_server.start()
    await ready_server(worker)
    await site.submit("t", "h_write one, h_echo two")
    assert sources(await site.result("t", within=20)) == [("write", "live"), ("echo", "live")]

    http_server.kill()
    await site.submit("u", "h_echo three")
    result = await site.result("u", within=20)
    assert sources(result) in ([("echo", "stub")], [])
    assert [(d.tool, d.source) for d in result.degraded if d.source == "stub"] or not sources(
        result
    )

    http_server.start()
    await ready_server(worker, times=2)

    async def is_back():
        task = f"v{len(site.model.asked)}"
        await site.submit(task, "h_echo four")
        return sources(await site.result(task, within=20)) == [("echo", "live")]

    await until(is_back, within=30, what="a live answer")
    assert f"POST {key}" in notes(site.folder)
    assert await worker.stop() == 0
    assert key not in worker.log.read_text()


async def test_a_server_that_forgets_its_sessions_is_greeted_anew(site, http_server):
    """It is restarted between two tasks, as in a deploy; the second task hardly notices."""
    worker = site.start(admin=True, **over_http(http_server.port, RESTART_SECONDS_MAX="1"))
    http_server.start()
    await ready_server(worker)
    await site.submit("t", "h_echo one")
    assert sources(await site.result("t", within=20)) == [("echo", "live")]
    http_server.kill()
    http_server.start()

    async def is_back():
        task = f"u{len(site.model.asked)}"
        await site.submit(task, "h_echo two")
        return sources(await site.result(task, within=20)) == [("echo", "live")]

    await until(is_back, within=40, what="a live answer of the new one")
    await worker.said("mcp.away")
