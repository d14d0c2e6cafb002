"""The ten invariants, each a function from what happened to what is wrong with it.

They know the facts and the engines at the end, and nothing of how the worker is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.simulation.check_calls import never_again, paired
from tests.simulation.check_ends import fenced, nothing_lost, queue_empty
from tests.simulation.check_limits import bounded, linear, neutral, no_bugs
from tests.simulation.check_sessions import one_after_another
from tests.simulation.check_words import honest, no_secrets
from tests.simulation.world import Outcome

Check = Callable[[Outcome], Iterator[str]]

# By the numbers of the invariants; the tenth thing that is checked of telemetry (8) is that broken
# listeners change nothing: in some worlds there is one, and everything else has to hold.
CHECKS: tuple[Check, ...] = (
    nothing_lost,  # 1
    queue_empty,  # 1
    paired,  # 2
    never_again,  # 3
    fenced,  # 4
    neutral,  # 5
    bounded,  # 6
    honest,  # 7
    no_bugs,  # 8
    linear,  # 9
    no_secrets,  # 10
    one_after_another,  # sessions
)


def wrong_with(outcome: Outcome) -> list[str]:
    """Everything that is wrong with a world, each with the name of what was promised."""
    return [f"{check.__name__}: {wrong}" for check in CHECKS for wrong in check(outcome)]
