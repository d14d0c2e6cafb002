"""A worker, its tasks in Redis and its journal in a file: killed at every boundary, the broker too."""

from __future__ import annotations

import pytest

from tests.servers.redisserver import own_url, redis_server
from tests.system.planmodel import PlanModel
from tests.system.processes import Site
from tests.system.test_kill import LEASE, PLAN, POINTS, RECOVERY, claimed, crash


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    """A server that writes each command to the disk before it answers."""
    folder = tmp_path_factory.mktemp("redis")
    with redis_server(folder, "--appendonly", "yes", "--appendfsync", "always") as server:
        yield server


@pytest.fixture
async def site(tmp_path, broker):
    """The site of the other tests, with its queue on the server."""
    model = PlanModel()
    site = Site(tmp_path, model, queue_url=own_url(broker.port))
    yield site
    await site.close()
    model.close()


@pytest.mark.parametrize("point", POINTS)
async def test_killed_run_is_finished_by_the_next_worker(site, point):
    """As on the file: nothing is asked or booked twice, and one result is published."""
    where, asked_again, first = POINTS[point]
    await site.submit("t", PLAN, reply_to="queue:results")
    await crash(site, where)
    site.start()
    result = await site.result("t", within=RECOVERY + 2.0)
    await site.empty()
    published = [lease.id for lease in await claimed(site, "results")]
    never_made = ["book a"] if point == "intent saved" else []

    assert (result.status, [call.source for call in result.tool_calls]) == (
        "completed",
        [first, "live"],
    )
    assert site.model.counts("t") == {1: 1, 2: 1, 3: 1} | asked_again
    assert sorted([*site.effects(), *never_made]) == ["book a", "book b"]
    assert published == ["t/result"]


@pytest.mark.parametrize("moment", ["idle", "in a task"])
async def test_broker_that_is_killed_and_comes_back_loses_nothing(site, broker, moment):
    """Work goes on after its return; what was in work is neither lost nor done twice."""
    # The lease outlives the outage: else a booking could be cut off between its intent and itself.
    worker = site.start(admin=True, QUEUE__LEASE_SECONDS="15")
    await worker.ready()
    if moment == "in a task":
        await site.submit("t", "book a, hold go, book b", reply_to="queue:results")
        await site.effect("hold go")
    broker.kill()
    await worker.said("queue.receive.error")
    broker.start()
    if moment == "idle":
        await site.submit("t", "book a, book b", reply_to="queue:results")
    site.ask_for("go")
    result = await site.result("t", within=LEASE + 5.0 + 5.0)
    await site.empty(within=LEASE + 10.0)
    published = {lease.id for lease in await claimed(site, "results")}

    assert result.status == "completed"
    assert site.effects("book") == ["book a", "book b"]
    assert published == {"t/result"}
    assert await worker.stop() == 0


async def test_broker_that_stands_still_for_longer_than_the_lease(site, broker):
    """Its connections stay open and say nothing: the lease is given up, and no booking repeated."""
    worker = site.start(admin=True, QUEUE__LEASE_SECONDS="3")
    await worker.ready()
    await site.submit("t", "book a, hold go, book b", reply_to="queue:results")
    await site.effect("hold go")
    broker.freeze()
    try:
        await worker.said("lease.lost", within=3.0 + 10.0)
    finally:
        broker.thaw()
    site.ask_for("go")
    result = await site.result("t", within=3.0 + 10.0)
    await site.empty(within=3.0 + 10.0)
    published = {lease.id for lease in await claimed(site, "results")}

    assert result.status == "completed"
    assert site.effects("book") == ["book a", "book b"]
    assert published == {"t/result"}
    assert await worker.stop() == 0
