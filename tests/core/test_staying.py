"""With which model a run goes on after it was moved to a fallback."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.core.test_loop import NOW, call, calling, replay, returned, started
from worker.core.staying import STAY_SECONDS, Stay
from worker.store.codec import decode, encode


def replied(at=NOW, **more):
    """A reply with a call, and its result."""
    event = calling(call())
    return replace(event, at=at, reply=replace(event.reply, **more)), returned()


def stay_of(*pairs, now):
    """Whom the next request begins with."""
    events = [event for pair in pairs for event in pair]
    return replay(started(), *events).next(now).stay


@pytest.mark.parametrize("cause", ["error", "rate_limit", "quota"])
def test_after_an_outage_the_run_stays_for_a_while(cause):
    """Then the first model is asked again; while its breaker is open, that costs nothing."""
    moved = replied(endpoint="b", switched=cause)

    assert stay_of(moved, now=NOW + STAY_SECONDS - 1) == Stay("b", cause, NOW)
    assert stay_of(moved, now=NOW + STAY_SECONDS) is None


def test_staying_does_not_begin_anew_with_each_reply():
    """Or a run of quick steps would never go back."""
    moved = replied(endpoint="b", switched="error")
    again = replied(at=NOW + 50, endpoint="b")

    assert stay_of(moved, again, now=NOW + STAY_SECONDS) is None


def test_a_reply_of_the_first_model_ends_the_stay():
    """The fallback failed meanwhile, and the first model was back."""
    moved = replied(endpoint="b", switched="error")

    assert stay_of(moved, replied(endpoint="a"), now=NOW + 1) is None


def test_what_was_too_long_once_stays_for_good():
    """The conversation only grows."""
    moved = replied(endpoint="b", switched="context_overflow")

    assert stay_of(moved, replied(endpoint="b"), now=NOW + 1e6) == Stay(
        "b", "context_overflow", NOW
    )


def test_a_run_that_stays_for_good_does_so_whoever_replies():
    """One that stepped in for the stand-in does not bring the first model back."""
    moved = replied(endpoint="b", switched="context_overflow")

    assert stay_of(moved, replied(endpoint="c"), now=NOW) == Stay("b", "context_overflow", NOW)


def test_the_move_is_in_the_journal():
    """A replay, also through the bytes of the journal, begins with the same model."""
    events = [started(), *replied(endpoint="b", switched="context_overflow")]

    assert decode(encode(events)) == events
    assert replay(*decode(encode(events))).next(NOW).stay == replay(*events).next(NOW).stay


def test_a_journal_from_before_there_were_chains_is_read():
    """Neither field is there; the run stays with nobody."""
    older = encode([started(), *replied()])
    for name in (b'"endpoint":"",', b'"switched":null,', b',"switched":null', b',"endpoint":""'):
        older = older.replace(name, b"")

    assert b"switched" not in older
    assert replay(*decode(older)).next(NOW).stay is None
