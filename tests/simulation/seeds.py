"""Run seeds and say what came of them, with the one command that replays a bad one."""

from __future__ import annotations

import itertools
import traceback
from collections.abc import Iterable
from dataclasses import dataclass

from tests.simulation.bounds import REAL_SECONDS, TimeIsUp, at_most
from tests.simulation.checks import wrong_with
from tests.simulation.facts import Facts
from tests.simulation.plan import plan_of
from tests.simulation.world import run_world
from worker.testing.simclock import SimStuck

_SHOWN_MAX = 12


@dataclass(frozen=True, slots=True)
class Report:
    """What one seed has come to."""

    seed: int
    world: str
    tasks: int
    simulated_seconds: float
    digest: str
    wrong: tuple[str, ...]

    def __str__(self) -> str:
        if not self.wrong:
            return f"seed {self.seed}: {self.world}, {self.tasks} tasks, {self.digest[:16]}"
        shown = [f"  {wrong}" for wrong in self.wrong[:_SHOWN_MAX]]
        if len(self.wrong) > _SHOWN_MAX:
            shown.append(f"  and {len(self.wrong) - _SHOWN_MAX} more")
        first = f"seed {self.seed}: {self.world}: {len(self.wrong)} promises broken"
        return "\n".join([first, *shown, f"  replay: {replay_command(self.seed)}"])


def replay_command(seed: int) -> str:
    """What to type to see that world again, line by line."""
    return f"make simulate SEED={seed}"


def run_seed(
    seed: int,
    *,
    facts: Facts | None = None,
    with_digest: bool = False,
    real_seconds: float = REAL_SECONDS,
) -> Report:
    """Let the world of a seed happen, and check it. One that does not end, or breaks, is wrong."""
    plan, noted = plan_of(seed), Facts() if facts is None else facts
    try:
        with at_most(real_seconds):
            outcome = run_world(plan, noted)
    except (SimStuck, TimeIsUp) as stuck:
        seconds, wrong = noted.last_at, [f"ends: {stuck}"]
    except Exception as error:
        shown = "".join(traceback.format_exception(error)).rstrip().replace("\n", "\n    ")
        seconds, wrong = noted.last_at, [f"goes on: the world broke off\n    {shown}"]
    else:
        seconds, wrong = outcome.seconds, wrong_with(outcome)
    digest = noted.digest() if with_digest else ""
    return Report(seed, plan.world, plan.tasks, seconds, digest, tuple(wrong))


def seeds_for(tasks: int) -> list[int]:
    """The first seeds whose worlds have so many tasks together."""
    total, seeds = 0, []
    for seed in itertools.count():
        if total >= tasks:
            return seeds
        total += plan_of(seed).tasks
        seeds.append(seed)
    raise AssertionError("there are always more seeds")


def bad_ones(reports: Iterable[Report]) -> str:
    """The reports of bad seeds, for a person; empty when there are none."""
    return "\n".join(str(report) for report in reports if report.wrong)
