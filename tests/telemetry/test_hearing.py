"""Who is told what, and that everybody who heard a beginning hears the end."""

from __future__ import annotations

import asyncio

import pytest

from worker.telemetry.signals import LeaseWasLost, Step, StepUpdated, StoreCall
from worker.telemetry.tell import Telemetry


class Ears:
    """Keeps what it hears; may refuse kinds, may raise."""

    def __init__(self, *refused, breaks=False):
        self.refused = refused
        self.breaks = breaks
        self.heard = []

    def hears(self, kind):
        return kind not in self.refused

    def told(self, signal):
        self._keep("told", type(signal))

    def started(self, operation):
        self._keep("started", type(operation))
        return len(self.heard)

    def settled(self, operation, token):
        self._keep("settled", token)

    def _keep(self, *what):
        self.heard.append(what)
        if self.breaks:
            raise RuntimeError("broken ears")


def test_a_refused_kind_is_not_told():
    """A listener hears all kinds but those that it refuses, signals and operations alike."""
    ears = Ears(Step, LeaseWasLost)
    telemetry = Telemetry([ears])
    telemetry.tell(LeaseWasLost("tasks", "t"))
    telemetry.tell(StepUpdated("t", 1, "", is_final=False))
    with telemetry.watch(Step(1)), telemetry.watch(StoreCall("append", "memory")):
        pass

    assert ears.heard == [("told", StepUpdated), ("started", StoreCall), ("settled", 2)]


def test_a_new_list_of_listeners_counts_at_once():
    """Replaced listeners hear nothing more, new ones hear kinds that were told before."""
    old, new = Ears(), Ears()
    telemetry = Telemetry([old])
    telemetry.tell(LeaseWasLost("tasks", "t"))
    telemetry.listeners = [new]
    telemetry.tell(LeaseWasLost("tasks", "t"))

    assert (len(old.heard), len(new.heard)) == (1, 1)


def test_whoever_heard_the_beginning_hears_the_end():
    """Listeners that change during an operation do not tear its pairs apart."""
    old, new = Ears(), Ears()
    telemetry = Telemetry([old])
    with telemetry.watch(Step(1)):
        telemetry.listeners = [new]

    assert old.heard == [("started", Step), ("settled", 1)]
    assert new.heard == []


def test_each_listener_gets_its_own_token_back():
    """Tokens come back to their listener, also past one that raises."""
    before, broken, after = Ears(), Ears(breaks=True), Ears()
    telemetry = Telemetry([before, broken, after])
    before.heard.append("something earlier")
    with telemetry.watch(Step(1)):
        pass

    assert before.heard[-1] == ("settled", 2)
    assert broken.heard[-1] == ("settled", None)
    assert after.heard[-1] == ("settled", 1)
    assert telemetry.listener_errors == 2


@pytest.mark.parametrize(
    ("error", "word"),
    [(ValueError("x"), "internal"), (asyncio.CancelledError(), "cancelled")],
)
def test_an_exception_passes_and_names_the_end(error, word):
    """What the body raises is raised, and the operation says how it ended."""
    step = Step(1)
    with pytest.raises(type(error)), Telemetry([Ears()]).watch(step):
        raise error

    assert step.error_type == word
