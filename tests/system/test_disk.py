"""The disk is full, and then it is not."""

from __future__ import annotations

import resource

from tests.system.processes import until

ROOM = 32 * 1024  # less than a few commits need


async def test_full_disk_costs_time_and_nothing_else(site):
    """While nothing can be written no task runs and none is lost; afterwards all are answered."""
    worker = site.start(admin=True, LOG_LEVEL="info")
    await worker.ready()
    await site.submit("before", "book a")
    await site.result("before", within=10)
    # A limit on the size of files, for this process alone: its writes fail as on a full disk.
    size = max(each.stat().st_size for each in site.folder.glob("tasks.db*"))
    limits = (size + ROOM, resource.RLIM_INFINITY)
    resource.prlimit(worker.popen.pid, resource.RLIMIT_FSIZE, limits)
    for number in range(30):
        await site.submit(f"t{number}", f"book t{number}, look " + "x" * 4000)
    failed = await until(
        lambda: {"store.error", "queue.receive.error", "queue.error"} & set(worker.events()),
        within=20,
        what="a failed write",
    )
    healthy = worker.ask("/healthz")[0]
    resource.prlimit(
        worker.popen.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    )
    results = [await site.result(f"t{number}", within=30) for number in range(30)]
    await site.empty()
    code = await worker.stop()

    assert failed
    assert (healthy, code) == (200, 0)
    assert [result.status for result in results] == ["completed"] * 30
    for number, result in enumerate(results):
        times = site.effects().count(f"book t{number}")
        assert times == 1 or (times == 0 and result.tool_calls[0].source == "unknown")
