"""A worker and its tasks on a server: killed at every boundary, the server too.

On PostgreSQL and Redis the journal lies beside the queue, so nothing is in a file; else it is in one.
"""

from __future__ import annotations

import pytest

from tests.servers import natsserver, postgresserver, rabbitserver, redisserver
from tests.system.planmodel import PlanModel
from tests.system.processes import Site
from tests.system.test_kill import POINTS, claimed, finished_by_the_next
from tests.system.test_stale import begun_once

QUICK = ("redis", "postgresql", "nats")


@pytest.fixture(scope="module", params=[*QUICK, "rabbitmq"])
def engine(request, tmp_path_factory):
    """A server that has each change on the disk before it answers, and how to name a part of it."""
    if request.param == "postgresql":
        with postgresserver.postgres_server() as server:
            yield server, postgresserver.own_url
        return
    if request.param == "rabbitmq":
        with rabbitserver.rabbit_server(tmp_path_factory.mktemp("rabbit")) as server:
            yield server, rabbitserver.own_url
        return
    if request.param == "nats":
        folder = tmp_path_factory.mktemp("nats")
        with natsserver.nats_server(folder, jetstream="sync_interval: always") as server:
            yield server, natsserver.own_url
        return
    options = ("--appendonly", "yes", "--appendfsync", "always")
    with redisserver.redis_server(tmp_path_factory.mktemp("redis"), *options) as server:
        yield server, redisserver.own_url


@pytest.fixture
def broker(engine):
    """The server."""
    return engine[0]


@pytest.fixture
async def site(tmp_path, engine):
    """The site of the other tests, with its queue on the server, and what can be of its store."""
    server, own_url = engine
    model = PlanModel()
    url = own_url(server.port)
    holds_journals = url.startswith(("postgresql:", "redis:"))
    site = Site(tmp_path, model, queue_url=url, store_url=url if holds_journals else None)
    yield site
    await site.close()
    model.close()
    assert holds_journals is not any(tmp_path.glob("*.db"))


@pytest.mark.parametrize("point", POINTS)
async def test_killed_run_is_finished_by_the_next_worker(site, point):
    """As on the file: nothing is asked or booked twice, and one result is published."""
    await finished_by_the_next(site, point)


async def test_a_task_of_many_leases_is_begun_once(site):
    """As on the file: its worker lives, so no other one gets it."""
    await begun_once(site)


# RabbitMQ takes ten seconds to start: once is enough, and the crash matrix has the rest.
@pytest.mark.parametrize(
    ("engine", "moment"),
    [
        *((name, moment) for name in QUICK for moment in ("idle", "in a task")),
        ("rabbitmq", "in a task"),
    ],
    indirect=["engine"],
)
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
    await booked_once(site, worker, within=11.0)


@pytest.mark.parametrize("engine", ["redis"], indirect=True)  # the matrix has the others
async def test_broker_that_stands_still_for_longer_than_the_lease(site, broker):
    """Its connections stay open and say nothing: the lease is given up, and no booking repeated."""
    lease = 3.0
    worker = site.start(admin=True, QUEUE__LEASE_SECONDS=str(lease))
    await worker.ready()
    await site.submit("t", "book a, hold go, book b", reply_to="queue:results")
    await site.effect("hold go")
    broker.freeze()
    try:
        await worker.said("lease.lost", within=lease + 10.0)
    finally:
        broker.thaw()
    site.ask_for("go")
    await booked_once(site, worker, within=lease + 10.0)


async def booked_once(site, worker, *, within):
    """The task comes to its end in time, with each booking and one result, and nothing is left."""
    result = await site.result("t", within=within)
    await site.empty(within=within)
    published = {lease.id for lease in await claimed(site, "results")}

    assert result.status == "completed"
    assert site.effects("book") == ["book a", "book b"]
    assert published == {"t/result"}
    assert await worker.stop() == 0
