"""`make simulate`: run many seeds on all cores, or replay one of them line by line."""

from __future__ import annotations

import argparse
import concurrent.futures
import os
import sys
import time

from tests.simulation.facts import Facts
from tests.simulation.seeds import Report, run_seed


def main() -> int:
    """Run what was asked for; 1 when a promise was broken."""
    parser = argparse.ArgumentParser(prog="make simulate", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="how many, from --first on")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, help="replay this one, with its trace")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    asked = parser.parse_args()
    if asked.seed is not None:
        return _replay(asked.seed)
    return _run(range(asked.first, asked.first + asked.seeds), asked.jobs)


def _replay(seed: int) -> int:
    facts = Facts()
    report = run_seed(seed, facts=facts, with_digest=True)
    for line in facts.lines():
        print(line)
    print(report)
    return 1 if report.wrong else 0


def _run(seeds: range, jobs: int) -> int:
    began = time.monotonic()
    reports: list[Report] = []
    with concurrent.futures.ProcessPoolExecutor(jobs) as pool:
        for report in pool.map(run_seed, seeds, chunksize=4):
            reports.append(report)
            if report.wrong:
                print(report, flush=True)
    bad, tasks = sum(bool(report.wrong) for report in reports), sum(r.tasks for r in reports)
    hours = sum(report.simulated_seconds for report in reports) / 3600
    print(
        f"{len(reports)} worlds, {tasks:,} tasks, {hours:.1f} simulated hours"
        f" in {time.monotonic() - began:.0f} s: {bad} bad"
    )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
