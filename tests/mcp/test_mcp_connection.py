"""A server is kept connected, left alone for a while when it is away, and found out when it hangs."""

from __future__ import annotations

import asyncio

import pytest

from tests.mcp.fakes import ECHO, FakeServer, Rig
from worker.core.errors import AttemptFailed
from worker.guard.verdict import rule
from worker.mcp.connection import _words
from worker.mcp.faults import LaunchFailed, ServerAway
from worker.mcp.port import Listed


async def test_calls_reach_the_server_by_its_own_names():
    """A call goes through and comes back."""
    async with Rig(FakeServer()) as rig:
        assert await rig.connection.call("echo", {"text": "hi"}) == "hi"
        assert rig.states == [("ready", "")]
        assert rig.lists == [["echo"]]
        assert repr(rig.connection) == "Connection(fake, ready)"


async def test_waits_double_up_to_the_longest_and_are_told_once():
    """A server that cannot be started is tried ever more seldom, and one line tells of it."""
    server = FakeServer()
    server.refuses = LaunchFailed("it was not found")
    async with Rig(server, restart_seconds=1.0, restart_seconds_max=8.0) as rig:
        for count in range(2, 7):
            rig.wake()
            await rig.until(lambda count=count: len(rig.sleeps) == count)
        assert rig.sleeps == [1, 2, 4, 8, 8, 8]
        assert server.opened == 6
        assert rig.states == [("away", "it was not found")]


async def test_a_server_that_dies_soon_after_each_start_is_started_ever_more_seldom():
    """Being there for a moment does not set the wait back."""
    server = FakeServer()
    async with Rig(server, restart_seconds=1.0, restart_seconds_max=60.0) as rig:
        for count in range(1, 6):
            server.die()
            await rig.until(lambda count=count: len(rig.sleeps) == count)
            rig.wake()
            await rig.until(lambda: rig.connection.state == "ready")
        assert rig.sleeps == [1, 2, 4, 8, 16]


async def test_the_wait_begins_anew_after_a_long_life():
    """What has been there for longer than the longest wait is worth a quick second try."""
    server = FakeServer()
    async with Rig(server, restart_seconds=1.0, restart_seconds_max=4.0) as rig:
        for count in range(1, 4):
            server.die()
            await rig.until(lambda count=count: len(rig.sleeps) == count)
            rig.wake()
            await rig.until(lambda: rig.connection.state == "ready")
        rig.now += 4.0
        server.die()
        await rig.until(lambda: len(rig.sleeps) == 4)
        assert rig.sleeps == [1, 2, 4, 1]


async def test_calls_while_away_fail_at_once_with_the_time_of_the_next_try():
    """Nothing was sent, so even a write may be tried again; the hint says when."""
    server = FakeServer()
    async with Rig(server, restart_seconds=2.0) as rig:
        server.die()
        await rig.until(lambda: rig.sleeps)
        with pytest.raises(ServerAway, match="MCP server fake: it has ended the connection") as hit:
            await rig.connection.call("echo", {})
        assert hit.value.sent is False
        assert hit.value.retry_after_seconds == 2.0
        assert server.calls == []


async def test_a_call_in_flight_ends_with_its_connection_as_sent():
    """What had begun when the server died may have had its effect."""
    server = FakeServer()
    async with Rig(server) as rig:
        calling = await rig.calling("write")
        server.die()
        with pytest.raises(AttemptFailed) as hit:
            await calling
        assert rule(hit.value).sent
        assert rule(hit.value).error_type == "connection"


async def test_a_start_that_hangs_is_given_up():
    """Neither a process that says nothing nor an address that swallows is waited for for ever."""
    server = FakeServer()
    server.hangs_at_start = True
    async with Rig(server, connect_seconds=0.01) as rig:
        assert rig.states == [("away", "no answer within 0.01 s")]


async def test_a_call_that_is_given_up_makes_a_silent_server_prove_that_it_lives():
    """A time limit cancels the call; the server answers the ping, and stays."""
    server = FakeServer()
    async with Rig(server) as rig:
        await rig.give_up("slow")
        await rig.until(lambda: server.pings)
        assert await rig.connection.call("echo", {"text": "still here"}) == "still here"
        assert server.opened == 1


async def test_a_server_that_hangs_is_ended_and_started_anew():
    """It does not answer the ping either, so its connection is closed."""
    server = FakeServer()
    server.is_deaf = True
    async with Rig(server, probe_seconds=0.01) as rig:
        await rig.give_up("freeze")
        await rig.until(lambda: rig.sleeps)
        assert rig.states[-1] == ("away", "it does not answer")
        assert server.closed.is_set()
        server.is_deaf = False
        rig.wake()
        await rig.until(lambda: rig.connection.state == "ready")
        assert await rig.connection.call("echo", {"text": "back"}) == "back"


async def test_a_call_given_up_while_the_server_talks_needs_no_proof():
    """It has been heard of since; it is only slow."""
    server = FakeServer()
    async with Rig(server) as rig:
        calling = await rig.calling("slow")
        rig.now += 1.0
        assert server.hooks is not None
        server.hooks.heard()
        calling.cancel()
        await asyncio.wait([calling])
        server.answer = None
        await rig.connection.call("echo", {})
        assert server.pings == 0


async def test_changed_tools_are_listed_again():
    """What the server says it has now is what is offered."""
    server = FakeServer()
    async with Rig(server) as rig:
        rig.now += 10.0
        server.change(ECHO, Listed("new", "", {"type": "object"}))
        await rig.until(lambda: rig.sleeps)
        assert rig.sleeps == [0.0]
        rig.wake()
        await rig.until(lambda: len(rig.lists) == 2)
        assert rig.lists[-1] == ["echo", "new"]


async def test_a_server_that_cries_wolf_is_listened_to_ever_more_seldom():
    """Each list of one that changes without an end costs more patience, up to a bound."""
    server = FakeServer()
    async with Rig(server, relist_seconds=1.0, restart_seconds_max=8.0) as rig:
        for count in range(1, 7):
            server.change(ECHO)
            await rig.until(lambda count=count: len(rig.sleeps) == count)
            rig.wake()
            await rig.until(lambda count=count: server.lists == count + 1)
        assert rig.sleeps == [1, 2, 4, 8, 8, 8]


async def test_a_server_that_is_calm_again_is_listened_to_at_once():
    """After a long time without a change the patience begins anew."""
    server = FakeServer()
    async with Rig(server, relist_seconds=1.0, restart_seconds_max=8.0) as rig:
        for count in range(1, 6):
            if count == 4:
                rig.now += 100.0
            server.change(ECHO)
            await rig.until(lambda count=count: len(rig.sleeps) == count)
            rig.wake()
            await rig.until(lambda count=count: server.lists == count + 1)
        assert rig.sleeps == [1, 2, 4, 0, 2]


@pytest.mark.parametrize(("kind", "pings"), [("timeout", 1), ("connection", 1), ("http_5xx", 0)])
async def test_a_call_without_an_answer_makes_it_prove_that_it_lives(kind, pings):
    """An error is an answer; a silence or a broken connection is none."""
    server = FakeServer()

    async def fail(name: str, arguments: object) -> None:
        raise AttemptFailed("no", kind=kind)

    server.answer = fail
    async with Rig(server) as rig:
        with pytest.raises(AttemptFailed):
            await rig.connection.call("echo", {})
        server.change(ECHO)
        await rig.until(lambda: rig.sleeps)
        assert server.pings == pings


async def test_a_server_that_talks_while_it_is_asked_lives():
    """It does not answer the ping, but something else has come from it since."""
    server = FakeServer()
    server.is_deaf = True
    async with Rig(server, probe_seconds=0.01) as rig:
        await rig.give_up("slow")
        await rig.until(lambda: server.pings)
        rig.now += 10.0
        assert server.hooks is not None
        server.hooks.heard()
        server.change(ECHO)
        await rig.until(lambda: rig.sleeps)
        assert rig.states == [("ready", "")]


async def test_the_next_try_has_no_time_once_it_goes_on():
    """A hint that has passed would have callers wait for nothing."""
    server = FakeServer()
    async with Rig(server) as rig:
        server.die()
        await rig.until(lambda: rig.sleeps)
        server.hangs_at_start = True
        rig.wake()
        await rig.until(lambda: server.opened == 2)
        with pytest.raises(ServerAway) as hit:
            await rig.connection.call("echo", {})
        assert hit.value.retry_after_seconds is None


async def test_reasons_are_cut_and_waits_differ_by_chance():
    """A server may say a lot; a fleet of workers does not come back in step."""
    server = FakeServer()
    server.refuses = LaunchFailed("x" * 1000)
    async with Rig(server, restart_seconds=1.0) as rig:
        rig.chance = 0.0
        rig.wake()
        await rig.until(lambda: len(rig.sleeps) == 2)
        assert rig.sleeps == [1.0, 1.0]
        assert len(rig.connection.reason) == 300


async def test_being_cancelled_closes_the_connection():
    """Nothing of a server is left when its worker stops."""
    server = FakeServer()
    async with Rig(server):
        assert not server.closed.is_set()
    assert server.closed.is_set()


def test_groups_of_errors_are_told_by_what_is_inside():
    """Task groups put a group around everything, which nobody wants to read."""
    inner = LaunchFailed("it was not found")
    assert _words(ExceptionGroup("unhandled", [ExceptionGroup("x", [inner])])) == str(inner)
    assert _words(ValueError("odd")) == "ValueError: odd"
