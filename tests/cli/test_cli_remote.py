"""Commands that ask the running worker over HTTP."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from dataclasses import replace

import pytest

from worker.cli import main
from worker.queues.port import Ticket
from worker.web.admin import AdminServer, HealthReport, ReadyReport
from worker.web.server import ApiServer


def test_guards_are_listed_and_held(cli, house):
    """An operator sees the guards, opens one with a reason, and releases it."""
    listed = cli("guard")
    opened = cli("guard", "open", "quote", "--why", "vendor down", "--who", "wang")
    shown = json.loads(cli("guard", "show", "quote", "--json").out)
    released = cli("guard", "release", "quote")

    assert [line.split()[0] for line in listed.out.splitlines()] == ["NAME", "model:x/y", "quote"]
    assert (opened.code, opened.out) == (0, "quote: forced_open\n")
    assert shown[0]["override"]["why"] == "vendor down"
    assert released.out == "quote: half_open\n"


def test_a_tool_stands_for_its_guard(cli, house):
    """A tool's name reaches the guard of its dependency, and the detour is told, with who shares it."""
    opened = cli("guard", "open", "get_stock_price", "--why", "vendor down")
    shown = cli("guard", "show", "get_stock_price")
    closed = cli("guard", "close", "get_index", "--why", "well again")
    released = cli("guard", "release", "get_stock_price", "--json")

    detour = "loopworker: the tool get_stock_price is guarded as 'quote', as get_index is\n"
    assert (opened.code, opened.out, opened.err) == (0, "quote: forced_open\n", detour)
    assert (json.loads(shown.out)["state"], shown.err) == ("forced_open", detour)
    assert closed.out == "quote: forced_closed\n"
    assert json.loads(released.out)["tools"] == ["get_index", "get_stock_price"]
    assert cli("guard").out.splitlines()[2].endswith("get_index, get_stock_price")


def test_override_may_run_out(cli, house):
    """--for becomes the moment until which the override holds."""
    before = time.time()
    ran = cli("guard", "close", "model:x/y", "--why", "test", "--for", "2h", "--json")

    assert ran.code == 0
    assert json.loads(ran.out)["override"]["until"] == pytest.approx(before + 7200, abs=30)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("open", "quote"), 2, "--why"),
        (("open",), 2, "which one"),
        (("open", "quote", "--why", "x", "--for", "soon"), 2, "90s"),
        (
            ("open", "other", "--why", "x"),
            3,
            "no guard named 'other', and no tool; there are: model:x/y, quote",
        ),
        (("show", "other"), 3, "no guard named 'other', and no tool; there are: model:x/y, quote"),
    ],
)
def test_wrong_guard_command_changes_nothing(cli, house, words, code, said):
    """An operator's mistake is one line, and no breaker moves."""
    ran = cli("guard", *words)

    assert ran.code == code
    assert said in ran.err
    assert house.guards.get("quote").state == "closed"


def test_cancel_ends_a_waiting_task(cli, house):
    """A waiting task is cancelled at once; an unknown one is exit 3."""
    asyncio.run(house.queue.put(Ticket("a/b", b'{"input": "x"}')))
    ran, unknown = cli("cancel", "a/b"), cli("cancel", "nobody")

    assert (ran.code, ran.out) == (0, "a/b: cancelled\n")
    assert (unknown.code, unknown.out) == (3, "")


def test_nobody_listening_is_unreachable(cli, monkeypatch):
    """Without a worker the line says where it was looked for and what to do, exit 4."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    monkeypatch.setenv("LOOPWORKER_HTTP", f"127.0.0.1:{port}")
    ran = cli("guard")

    assert ran.code == 4
    assert f"no worker answers at http://127.0.0.1:{port}" in ran.err
    assert "LOOPWORKER_HTTP" in ran.err


def test_listener_that_is_off_is_told(cli, monkeypatch):
    """A worker without an API cannot be asked, and the setting is named."""
    monkeypatch.setenv("LOOPWORKER_HTTP", "off")
    ran = cli("guard")

    assert (ran.code, "LOOPWORKER_HTTP is off" in ran.err) == (4, True)


def test_cancel_needs_no_worker(cli, monkeypatch):
    """Without a worker a waiting task is cancelled in queue and store themselves."""
    monkeypatch.setenv("LOOPWORKER_HTTP", "off")
    cli("submit", "x", "--id", "t")
    ran, unknown = cli("cancel", "t"), cli("cancel", "nobody")

    assert (ran.code, ran.out) == (0, "t: cancelled\n")
    assert "cancelled" in cli("status", "t").err
    assert (unknown.code, unknown.out) == (3, "")


def test_token_is_sent(cli, house, monkeypatch):
    """With LOOPWORKER_HTTP_TOKEN the command carries it; without it the worker's refusal is told."""
    parts = replace(house.parts, token="correct-horse", closing=asyncio.Event())

    async def ask() -> tuple[int, int]:
        server = ApiServer("127.0.0.1", 0, parts=parts)
        await server.start()
        monkeypatch.setenv("LOOPWORKER_HTTP", f"127.0.0.1:{server.port}")
        without = await asyncio.to_thread(main, ["guard"])
        monkeypatch.setenv("LOOPWORKER_HTTP_TOKEN", "correct-horse")
        with_it = await asyncio.to_thread(main, ["guard"])
        await server.stop()
        return without, with_it

    assert asyncio.run(ask()) == (4, 0)


@pytest.fixture
def admin(monkeypatch):
    """An admin listener whose loop is fine and which is not ready."""
    age = [0.0]
    server = AdminServer(
        "127.0.0.1",
        0,
        render=lambda accept: (b"", "text/plain"),
        health=lambda: HealthReport(age[0], 30.0),
        ready=lambda: ReadyReport(False, "draining"),
    )
    server.start()
    monkeypatch.setenv("LOOPWORKER_ADMIN", f"0.0.0.0:{server.port}")
    yield age
    server.stop()


def test_health_follows_the_admin_listener(cli, admin):
    """Exit 0 while the loop ticks, 1 when it is stuck; --ready asks for readiness."""
    well, ready = cli("health"), cli("health", "--ready")
    admin[0] = 99.0
    stuck = cli("health")

    assert (well.code, ready.code, stuck.code) == (0, 1, 1)
    assert "draining" in ready.out
    assert "has not ticked" in stuck.out


def test_health_without_a_worker_is_one(cli, monkeypatch):
    """Nobody at the admin address: exit 1, as the container's HEALTHCHECK wants it."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    monkeypatch.setenv("LOOPWORKER_ADMIN", f"127.0.0.1:{port}")

    assert cli("health").code == 1
