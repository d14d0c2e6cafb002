"""The crash matrix notices a worker that keeps one promise less, and passes the one that keeps all."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.matrix import unsafe_worker
from tests.matrix.crashes import frozen, killed_in_a_call
from tests.matrix.engines import Setup
from tests.matrix.world import world
from tests.system.processes import WORKER

UNSAFE = (sys.executable, str(Path(unsafe_worker.__file__)))


@pytest.fixture
async def here(tmp_path):
    """A world on a file, which does not wait long for what will not come."""
    async with world(Setup("SQLite", lambda: (None, None)), tmp_path) as made:
        made.patience_seconds = 0.0
        yield made


async def test_without_fencing_something_is_made_twice(here):
    """A stopped worker that goes on with what another has taken over books again."""
    found = await frozen(here, (*UNSAFE, "unfenced"))

    assert found.duplicated == 1
    assert not found.is_sound


async def test_with_the_ack_before_the_result_something_is_lost(here):
    """A worker that is done with a task before it begins loses it when it dies."""
    found = await killed_in_a_call(here, (*UNSAFE, "hasty"))

    assert found.lost == 1
    assert not found.is_sound


@pytest.mark.parametrize("fault", [frozen, killed_in_a_call])
async def test_the_worker_as_it_is_keeps_both(here, fault):
    """The same two faults, and nothing is lost or made twice."""
    found = await fault(here, WORKER)

    assert found.is_sound, found
