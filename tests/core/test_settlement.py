"""The whole settlement table, one row each."""

from __future__ import annotations

import pytest

from worker.core.limits import BAD_FOR_OBJECTIVE, NOT_COUNTED, Status, final_status
from worker.core.settlement import (
    PERMANENT,
    TRANSIENT,
    Deliveries,
    settle_ended,
    settle_handed_back,
    settle_outage,
    settle_parked,
    settle_session_busy,
)

FIRST = Deliveries(1, 5, backoff_seconds=2.0, backoff_seconds_max=10.0)
LAST = Deliveries(5, 5, backoff_seconds=2.0, backoff_seconds_max=10.0)


@pytest.mark.parametrize("status", sorted(set(Status) - TRANSIENT - PERMANENT))
def test_named_endings_are_acknowledged(status):
    """A run that ended by its own rules is done, whether or not it has an answer."""
    assert settle_ended(status, None, FIRST).action == "ack"


@pytest.mark.parametrize("status", sorted(TRANSIENT))
def test_transient_failures_are_retried_and_then_dead_lettered(status):
    """What may work later is tried again with a growing delay, as long as deliveries are left."""
    retry, dead = settle_ended(status, "e", FIRST), settle_ended(status, "e", LAST)

    assert (retry.action, retry.delay_seconds, retry.counted) == ("retry", 2.0, True)
    assert dead.action == "dead_letter"
    assert "delivery 5 of 5" in dead.reason


@pytest.mark.parametrize("status", sorted(PERMANENT))
def test_permanent_failures_go_to_the_dead_letters_at_once(status):
    """What cannot work before somebody mends something is not repeated."""
    assert settle_ended(status, "e", FIRST).action == "dead_letter"


def test_the_back_off_doubles_is_capped_and_honours_the_servers_hint():
    """The longer of back-off and Retry-After wins."""
    third = Deliveries(3, 5, 2.0, 10.0)

    assert settle_ended("timeout", None, third).delay_seconds == 8.0
    assert settle_ended("timeout", None, Deliveries(4, 5, 2.0, 10.0)).delay_seconds == 10.0
    assert settle_ended("rate_limited", None, third, hint_seconds=60).delay_seconds == 60


def test_parked_and_handed_back_use_up_no_delivery():
    """Waiting and our own shutdown are not the task's fault."""
    assert settle_parked(9, "job") == settle_parked(9, "job")
    assert not settle_parked(9, "job").counted
    assert (settle_handed_back("drain").action, settle_handed_back("drain").counted) == (
        "release",
        False,
    )


def test_every_status_is_good_or_bad_or_not_counted():
    """The operators' word follows the objective (decisions.md 6)."""
    for status in Status:
        counted_bad = status in BAD_FOR_OBJECTIVE or status in NOT_COUNTED
        assert (final_status(status) == "error") == counted_bad
    assert final_status("no_information") == final_status("handoff") == "success"


@pytest.mark.parametrize(
    ("ahead", "handings", "seconds"),
    [(0, 1, 0.2), (0, 2, 0.4), (0, 9, 5.0), (1, 1, 0.8), (3, 2, 6.4), (3, 9, 20.0), (99, 1, 60.0)],
)
def test_who_waits_for_a_session_looks_seldom(ahead, handings, seconds):
    """Longer with each look and with each one in front; a wake brings it when its turn comes."""
    settled = settle_session_busy(ahead, handings)

    assert (settled.action, settled.counted) == ("release", False)
    assert settled.delay_seconds == pytest.approx(seconds)


def test_a_long_line_hardly_looks_at_all():
    """Of a hundred that wait for a session for a minute, each looks about twice."""
    looks = 0
    for ahead in range(100):
        waited, handings = 0.0, 0
        while waited < 60.0:
            handings += 1
            waited += settle_session_busy(ahead, handings).delay_seconds

        looks += handings
    assert looks < 200


def test_an_outage_of_the_store_is_waited_for_ever_longer():
    """No delivery is used up, and no more than a minute is waited at once."""
    told = [settle_outage(handings) for handings in (1, 2, 5, 7, 10_000)]

    assert [each.delay_seconds for each in told] == [1.0, 2.0, 16.0, 60.0, 60.0]
    assert {(each.action, each.counted) for each in told} == {("release", False)}
