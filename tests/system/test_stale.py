"""A worker that was away for longer than its lease and does not know it."""

from __future__ import annotations

import signal

import pytest

from tests.system.processes import until


async def begun_once(site):
    """Let a task last for many leases while another worker waits for it."""
    workers = [site.start(admin=True) for _ in range(2)]
    for worker in workers:
        await worker.ready()
    await site.submit("t", "hold go, book b")
    await site.effect("hold go")
    await until(
        lambda: any(worker.events().count("lease.renewed") >= 10 for worker in workers),
        within=15,
        what="three leases to pass",
    )
    site.ask_for("go")
    result = await site.result("t", within=10)

    assert (result.status, site.effects()) == ("completed", ["hold go", "book b"])
    assert sum(worker.events().count("task.received") for worker in workers) == 1


async def test_living_worker_keeps_its_task(site):
    """A task that lasts for many leases is started once, though another worker waits for it."""
    await begun_once(site)


@pytest.mark.parametrize("place", ["model", "tool"])
async def test_stopped_worker_is_fenced_when_it_goes_on(site, place):
    """SIGSTOP for longer than the lease: taken over, and what comes later writes nothing."""
    first = site.start(admin=True)
    if place == "model":
        site.model.before_reply = lambda asked: asked.step == 2 and first.freeze()
    plan = "book a, book b" if place == "model" else "book a, hold go, book b"
    await site.submit("t", plan, reply_to="queue:results")
    if place == "model":
        await until(lambda: site.model.counts("t").get(2), within=10, what="the second question")
    else:
        await site.effect("hold go")
        first.freeze()
    site.model.before_reply = lambda asked: None
    site.ask_for("go")
    second = site.start()
    result = await site.result("t", within=8)
    journal = await site.store.view("t")
    first.send(signal.SIGCONT)
    await first.said("lease.lost")
    lost = 'loopworker_leases_lost_total{queue="tasks"} 1.0'
    await until(lambda: lost in first.ask("/metrics")[1], within=5, what="the loss to be counted")
    exit_codes = [await first.stop(), await second.stop()]

    assert await site.store.view("t") == journal
    assert (result.status, result.worker.endswith(f":{second.popen.pid}")) == ("completed", True)
    assert site.effects("book") == ["book a", "book b"]
    assert [call.source for call in result.tool_calls] == ["live"] * len(result.tool_calls)
    assert exit_codes == [0, 0]
    assert (await site.queue.sibling("results").depth()).ready == 1


async def test_blocked_loop_keeps_its_task_within_its_limit(site):
    """A tool blocks the loop for two leases and more: it is done once, and by nobody else."""
    first = site.start(admin=True, WORKER__LOOP_STUCK_SECONDS="30")
    await first.ready()
    await site.submit("t", "block free, book b")
    await site.effect("block free")
    second = site.start(admin=True)
    await second.ready()
    renewed = first.events().count("lease.renewed")
    await until(
        lambda: first.events().count("lease.renewed") >= renewed + 7,
        within=15,
        what="two leases and more to pass",
    )
    depth, healthy = await site.queue.depth(), first.ask("/healthz")[0]
    site.ask_for("free")
    result = await site.result("t", within=8)
    exit_codes = [await first.stop(), await second.stop()]

    assert (depth.leased, healthy) == (1, 200)
    assert [call.source for call in result.tool_calls] == ["live", "live"]
    assert result.worker.endswith(f":{first.popen.pid}")
    assert site.effects() == ["block free", "book b"]
    assert "task.received" not in second.events()
    assert not {"lease.lost", "write.fenced", "worker.stuck"} & {*first.events()}
    assert exit_codes == [0, 0]


async def test_blocked_loop_turns_red_and_is_taken_over(site):
    """A sync wait in an async tool: /healthz says so, /metrics goes on, another worker finishes."""
    first = site.start(admin=True)
    await first.ready()
    healthy = first.ask("/healthz")[0]
    await site.submit("t", "block free, book b")
    await site.effect("block free")
    second = site.start()
    stuck = await until(
        lambda: first.ask("/healthz")[1] if first.ask("/healthz")[0] == 503 else None,
        within=10,
        what="a red health page",
    )
    code, metrics = first.ask("/metrics")
    result = await site.result("t", within=8)
    journal = await site.store.view("t")
    site.ask_for("free")
    await first.said("lease.lost")
    await until(lambda: first.ask("/healthz")[0] == 200, within=5, what="health to come back")
    exit_codes = [await first.stop(), await second.stop()]

    assert (healthy, "has not ticked" in stuck) == (200, True)
    assert (code, "loopworker_" in metrics) == (200, True)
    assert [call.source for call in result.tool_calls] == ["unknown", "live"]
    assert result.worker.endswith(f":{second.popen.pid}")
    assert site.effects() == ["block free", "book b"]
    # The tool's return was on its way to the journal before anything else could run.
    assert {"worker.stuck", "write.fenced"} <= {*first.events()}
    assert await site.store.view("t") == journal
    assert exit_codes == [0, 0]
