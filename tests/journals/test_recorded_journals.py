"""Journals that released versions have written: the code of now goes on with each of them.

`loopworker replay ID --json` wrote the files, one folder for each version. A release adds some of
its own; none is ever changed or taken away.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from worker.core.effects import Finish
from worker.core.ending import result_of
from worker.core.limits import Limits
from worker.core.loop import Loop
from worker.core.redeciding import redecide
from worker.core.wireformat import result_from_wire
from worker.store.codec import revived

HOME = Path(__file__).parent
FILES = sorted(HOME.glob("*/*.json"))
TIGHT = Limits(max_calls_per_step=1, max_invalid_turns=1, max_empty_replies=0, tokens=1, cost=0.1)


def recorded(path):
    """The facts of a file, and the result that they came to."""
    written = json.loads(path.read_text(encoding="utf-8"))
    return revived(written["events"]), result_from_wire(written["result"])


def test_every_kind_of_run_is_there():
    """An empty folder would prove nothing."""
    assert {path.stem for path in FILES} >= {"a-call", "approved", "denied", "second-turn"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_comes_to_the_same_end(path):
    """The same decisions, the same status, the same answer."""
    events, result = recorded(path)
    told = redecide(Limits(), events, now=result.ended_at)

    assert told.difference is None
    assert isinstance(told.last, Finish)
    again = result_of(told.loop, told.last, ended_at=result.ended_at)
    assert (again.status, again.answer, again.steps) == (result.status, result.answer, result.steps)


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
@pytest.mark.parametrize("limits", [Limits(), TIGHT], ids=["usual", "tight"])
def test_goes_on_from_wherever_it_broke_off(path, limits):
    """After each of its facts a decision can be made, under other limits as well."""
    events, _ = recorded(path)
    for length in range(1, len(events) + 1):
        loop = Loop.replay(limits, events[:length])

        assert loop.next(events[length - 1].at) == loop.next(events[length - 1].at)
