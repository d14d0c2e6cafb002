"""SIGTERM: what runs may end, what cannot is handed back, and nothing new begins."""

from __future__ import annotations

import signal
import time

from tests.system.processes import counts, until

LONG_LEASE = {"QUEUE__LEASE_SECONDS": "30"}


async def test_drain_finishes_what_it_can_and_hands_the_rest_back(site):
    """One run ends in its grace, one goes back uncounted; the next worker need not wait."""
    drain = {"WORKER__DRAIN_SECONDS": "4"}
    first = site.start(admin=True, **LONG_LEASE, **drain)
    await first.ready()
    await site.submit("short", "hold soon")
    await site.submit("long", "hold later, book b")
    await site.effect("hold soon")
    await site.effect("hold later")
    first.send(signal.SIGTERM)
    not_ready = await until(
        lambda: first.ask("/readyz") if first.ask("/readyz")[0] == 503 else None,
        within=4,
        what="/readyz to say no",
    )
    health = first.ask("/healthz")[0]
    await site.submit("late", "book late")
    site.ask_for("soon")
    code = await first.ended(within=4 + 10)
    depth = counts(await site.queue.depth())
    short = await site.store.result("short")
    back = await claimed_again(site)

    assert (health, "draining" in not_ready[1], code) == (200, True, 0)
    assert short is not None
    assert depth == (2, 0, 0, 0, 0)
    assert back == {"long": (1, 2), "late": (1, 1)}
    assert drained(first) == {"finished": 1, "released": 0, "cancelled": 1}
    assert "late" not in {line.get("task_id") for line in first.lines()}


async def test_next_worker_goes_on_at_once(site):
    """A long lease does not matter for what was handed back."""
    first = site.start(admin=True, WORKER__DRAIN_SECONDS="0", **LONG_LEASE)
    await first.ready()
    await site.submit("t", "book a, hold later, book b")
    await site.effect("hold later")
    second = site.start(admin=True, **LONG_LEASE)
    await second.ready()
    code = await first.stop(within=6)
    site.ask_for("later")
    result = await site.result("t", within=6)

    assert (code, result.status) == (0, "completed")
    assert result.worker.endswith(f":{second.popen.pid}")
    assert site.effects() == ["book a", "hold later", "hold later", "book b"]
    assert site.model.counts("t") == {1: 1, 2: 1, 3: 1, 4: 1}


async def test_second_signal_hands_everything_back(site):
    """Whoever asks twice does not wait for the grace."""
    first = site.start(admin=True, **LONG_LEASE)
    await first.ready()
    await site.submit("t", "hold never")
    await site.effect("hold never")
    first.send(signal.SIGTERM)
    await until(lambda: first.ask("/readyz")[0] == 503, within=10, what="the drain")
    asked = time.monotonic()
    code = await first.stop(within=15)
    taken = time.monotonic() - asked
    back = await claimed_again(site)

    assert (code, back) == (0, {"t": (1, 2)})
    assert taken < 10  # the drain would be 20


async def test_signal_during_the_start_ends_the_worker(site):
    """SIGTERM while the queue's file still keeps it waiting: it drains as soon as it runs."""
    lock = await locked(site)
    first = site.start()
    await first.said("worker.start")
    first.send(signal.SIGTERM)
    lock.close()
    code = await first.ended(within=10)

    assert code == 0
    assert first.events()[-1] == "worker.stop"


async def locked(site):
    """Keep the file from every writer until the returned connection is closed."""
    import sqlite3

    connection = sqlite3.connect(site.folder / "tasks.db", isolation_level=None)
    connection.execute("begin immediate")
    return connection


async def claimed_again(site):
    """Deliveries and handings of each task that is claimable now."""
    leases = await site.queue.claim(owner="test", lease_seconds=60, wait_seconds=1, limit=10)
    return {lease.id: (lease.deliveries, lease.handings) for lease in leases}


def drained(process):
    """What the worker said about its drain."""
    line = next(line for line in process.lines() if line["event"] == "worker.drain.end")
    return {name: line[name] for name in ("finished", "released", "cancelled")}
