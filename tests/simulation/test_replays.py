"""A seed is a history: the same one in every process, and a command to see it again."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace

import pytest

from tests.simulation.plan import WORLDS, plan_of
from tests.simulation.seeds import Report, replay_command, seeds_for
from tests.simulation.world import run_world

EVERYTHING = list(WORLDS).index("everything")


def test_seeds_in_a_row_go_through_all_kinds_of_worlds() -> None:
    """No kind of trouble waits for a lucky seed, and ten thousand tasks have each many times."""
    kinds = [plan_of(seed).world for seed in seeds_for(10_000)]

    assert all(kinds.count(kind) >= 15 for kind in WORLDS)


def test_a_seed_gives_the_same_history_again() -> None:
    """Run twice in one process, a world does the very same things; another seed does others."""
    plan = replace(plan_of(EVERYTHING), tasks=8)
    first, second = run_world(plan).facts, run_world(plan).facts
    other = run_world(replace(plan, seed=plan.seed + len(WORLDS))).facts

    assert first.digest() == second.digest()
    assert first.digest() != other.digest()


@pytest.mark.slow
def test_a_seed_gives_the_same_history_in_another_process() -> None:
    """Whatever a process makes of hashes and addresses, its history of a seed is this one."""
    here = run_world(plan_of(EVERYTHING)).facts.digest()

    for hash_seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-m", "tests.simulation", "--seed", str(EVERYTHING)],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
        )

        assert here[:16] in done.stdout.splitlines()[-1]


def test_a_bad_seed_says_how_to_see_it_again() -> None:
    """The report of a broken promise ends with the one command that replays its world."""
    report = str(Report(4711, "pauses", 50, 130.0, "", ("fenced: w0.1 wrote into task-3",)))

    assert "fenced: w0.1 wrote into task-3" in report
    assert re.search(r"replay: make simulate SEED=4711$", report)
    assert replay_command(4711) in report
