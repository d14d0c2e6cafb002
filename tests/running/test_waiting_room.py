"""How long a job is left alone between two questions, and which decisions count."""

from __future__ import annotations

import json
from typing import Any

import pytest

from worker.core.events import JobStarted
from worker.running.waitingroom import WaitingOptions, WaitingRoom
from worker.store.mailbox import Expectation, Posted

NOTHING: Any = None


def room(now: float) -> WaitingRoom:
    """A room at a moment, without anybody in it."""
    options = WaitingOptions(approved_seconds=60.0)
    return WaitingRoom(NOTHING, NOTHING, NOTHING, options, wall=lambda: now)


@pytest.mark.parametrize(
    ("age", "first", "wish", "distance"),
    [
        (20.0, 10.0, None, 10.0),  # as long as at first
        (1000.0, 10.0, None, 50.0),  # a share of its age
        (1000.0, 10.0, 70.0, 70.0),  # what the tool asks for, if that is longer
        (1000.0, 100.0, 70.0, 70.0),  # also if it is shorter than at first
        (0.1, 0.1, None, 1.0),  # never at once
        (3590.0, 10.0, None, 10.0),  # to the last question, at the end of its time
        (3600.0, 10.0, None, None),  # and none after that
    ],
)
def test_the_older_a_job_the_longer_it_is_left_alone(age, first, wish, distance):
    """A day of asking is some hundred facts, and the last question comes at the end."""
    job = JobStarted(1000.0, "c1", "h1", 4600.0, 1000.0 + first)
    asked = room(1000.0 + age).next_poll(job, wish)

    assert asked == (None if distance is None else pytest.approx(1000.0 + age + distance))


@pytest.mark.parametrize(
    ("posted_at", "digest", "until"),
    [(99.9, "d", 159.9), (100.0, "d", None), (99.9, "other", None)],
)
def test_a_decision_counts_in_time_and_for_what_was_seen(posted_at, digest, until):
    """Too late, or about other arguments, it is as if nobody had said anything."""
    expected = Expectation(
        *("approval:k", "t1", "c1", "approval", "refund", "{}"),
        digest="d",
        asked_at=0.0,
        expires_at=100.0,
    )
    said = {"approved": True, "digest": digest, "by": "ann", "why": "fine"}
    posted = Posted("approval:k", json.dumps(said).encode(), "b", posted_at)
    decided = room(500.0)._decided(posted, expected)

    assert (decided and decided.expires_at) == until
    assert decided is None or (decided.approved, decided.by, decided.why) == (True, "ann", "fine")
