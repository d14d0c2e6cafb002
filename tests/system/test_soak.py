"""Many tasks through one process: what it holds afterwards is what it held before."""

from __future__ import annotations

import json
import sys

import pytest

from tests.system.processes import HERE

ROUNDS, SIZE = 10, 1_000
MIB = 1_048_576


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_ten_thousand_tasks_leave_nothing_behind(site):
    """With retention 0 the file, its log, memory and descriptors stay as they were."""
    worker = site.start(
        (sys.executable, str(HERE / "soaking_worker.py"), str(ROUNDS), str(SIZE)),
        CONCURRENCY="64",
        LOG_LEVEL="error",
        QUEUE_URL=f"sqlite:///{site.folder / 'soak.db'}?synchronous=normal",
        RETENTION="0",
        WORKER__PRUNE_SECONDS="0.25",
    )
    code = await worker.ended(within=100)
    said = worker.log.read_text().splitlines()
    weights = [json.loads(line[5:]) for line in said if line.startswith("SOAK ")]
    early, late = weights[1:4], weights[-3:]  # the first round fills caches and pools
    grown = {name: worst(late, name) - worst(early, name) for name in weights[0]}
    print(*weights, sep="\n")

    assert (code, len(weights)) == (0, ROUNDS)
    assert grown["in use"] <= 64 * 1024
    assert grown["file"] <= 6 * MIB  # a whole round, if pruning comes late
    assert grown["log"] <= 4 * MIB
    assert grown["resident"] <= 6 * MIB
    assert grown["descriptors"] <= 2
    assert grown["threads"] <= 2
    assert grown["tasks"] <= 2


def worst(weights, name):
    """The largest of one measure."""
    return max(each[name] for each in weights)
