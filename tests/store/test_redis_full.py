"""A Redis store whose server has no memory left, and one that loses everything."""

from __future__ import annotations

import pytest
import redis.asyncio

from tests.servers.redisserver import own_url, redis_server
from worker.core.errors import LeaseLost, StoreUnavailable
from worker.core.task import Result
from worker.store import open_store
from worker.testing.session_case import turn_of
from worker.testing.store_case import note
from worker.testing.store_mail import expecting

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server whose memory the tests bound."""
    with redis_server(tmp_path_factory.mktemp("redis")) as server:
        yield server


async def begun(store, run_id):
    """A run that has one event."""
    run = (await store.open(run_id, owner="w", lease_seconds=30)).run
    await store.append(run, [note(0)])
    return run


async def test_a_full_server_refuses_what_adds_and_lets_go_of_the_rest(server):
    """Nothing is half written; leases go on, runs are let go of, old ones make room."""
    store = open_store(own_url(server.port))
    run, other = await begun(store, "t"), await begun(store, "u")
    done = await begun(store, "old")
    result = Result(task_id="t", status="completed")
    await store.finish(done, [], Result(task_id="old", status="completed"))
    async with redis.asyncio.Redis(port=server.port) as operator:
        await operator.config_set("maxmemory", "1kb")
        for write in (
            store.append(run, [note(1)]),
            store.finish(run, [note(1)], result),
            store.put_result(Result(task_id="new", status="rejected")),
            store.open("new", owner="w", lease_seconds=30),
            store.mail.expect(expecting()),
            store.mail.post("a", b"1"),
        ):
            with pytest.raises(StoreUnavailable, match="no memory left"):
                await write
        lost = await store.renew_many([run, other], lease_seconds=60)
        await store.release(other, turn=turn_of("x"))
        heard = await store.request_cancel("t")
        gone = await store.prune(older_than_seconds=0)
        views = [await store.view(name) for name in ("t", "u", "old", "new")]
        await operator.config_set("maxmemory", "0")
    await store.finish(run, [note(1)], result)
    ended = await store.view("t")
    await store.close()

    assert (lost, heard, gone) == ([], True, 1)
    assert [view and len(view.events) for view in views] == [1, 1, None, None]
    assert (len(ended.events), ended.result) == (2, result)


async def test_a_server_that_has_lost_everything_fences_whoever_worked_on_it(server):
    """A run that nobody knows any more takes no event; begun again it is a new one."""
    store = open_store(own_url(server.port))
    run = await begun(store, "t")
    async with redis.asyncio.Redis(port=server.port) as operator:
        await operator.flushall()
    with pytest.raises(LeaseLost):
        await store.append(run, [note(1)])
    lost = await store.renew_many([run], lease_seconds=30)
    again = await store.open("t", owner="w2", lease_seconds=30)
    await store.close()

    assert (lost, again.events, again.run.next_seq) == ([run], (), 0)
