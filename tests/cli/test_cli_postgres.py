"""Commands on a PostgreSQL server that holds queue and journal."""

from __future__ import annotations

import pytest

from tests.servers.postgresserver import own_url, postgres_server

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def server():
    """A server that is well, and its settings as a client may change them."""
    with postgres_server() as server:
        yield server


def test_doctor_looks_at_queue_and_store(cli, monkeypatch, server):
    """Both are made in one schema, and both answer."""
    monkeypatch.setenv("LOOPWORKER_QUEUE_URL", own_url(server.port))
    told = [line.split() for line in cli("doctor", "--no-probe").out.splitlines()]

    assert [line[:2] for line in told if line[1] in ("queue", "store")] == [
        *(["ok", "queue"], ["ok", "store"])
    ]


def test_doctor_refuses_a_server_that_may_lose_what_it_is_given(cli, monkeypatch):
    """With the reason and the cure, for queue and store, without the password."""
    with postgres_server("--fsync=off") as server:
        monkeypatch.setenv("LOOPWORKER_QUEUE_URL", own_url(server.port))
        ran = cli("doctor", "--no-probe")
    lines = [line for line in ran.out.splitlines() if "set fsync = on" in line]

    assert ran.code != 0
    assert [line.split()[:2] for line in lines] == [["FAIL", "queue"], ["FAIL", "store"]]
    assert "p@ss" not in ran.out and "p%40ss" not in ran.out


def test_a_task_goes_in_and_is_seen(cli, monkeypatch, server):
    """Submit, status and cancel, each a process that opens the database anew."""
    monkeypatch.setenv("LOOPWORKER_QUEUE_URL", own_url(server.port))
    submitted = cli("submit", "--id", "t-1", "What time is it?")
    seen = cli("status", "t-1")
    cancelled = cli("cancel", "t-1")
    after = cli("status", "t-1")

    assert (submitted.code, cancelled.code) == (0, 0)
    assert "ready" in seen.out or "waiting" in seen.out
    assert "cancelled" in after.err
