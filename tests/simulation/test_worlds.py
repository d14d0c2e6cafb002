"""Ten thousand tasks in worlds in which everything goes wrong: every promise is kept in each."""

from __future__ import annotations

import pytest

from tests.simulation.seeds import bad_ones, run_seed, seeds_for

TASKS = 10_000  # more of them with `make simulate SEEDS=…`
PARTS = 8  # so that several processes may share them


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_every_promise_is_kept_in_every_world(part: int) -> None:
    """Whatever fails in these worlds, nothing is lost, repeated, written late or left unsaid."""
    seeds = seeds_for(TASKS)[part::PARTS]

    assert bad_ones(map(run_seed, seeds)) == ""
