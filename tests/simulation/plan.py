"""What a seed stands for: how large its world is, and what goes wrong in it."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace


class Chance(random.Random):
    """A stream of luck of its own for each part of a world: one more draw here moves none there."""

    def __new__(cls, seed: int, part: str) -> Chance:
        """Make it; the name of the part is in the seed."""
        return super().__new__(cls)

    def __init__(self, seed: int, part: str) -> None:
        super().__init__(f"{seed}/{part}")

    def happens(self, probability: float) -> bool:
        """Whether something of this probability does."""
        return probability > 0 and self.random() < probability

    def around(self, mean: float) -> float:
        """Seconds until something that happens every `mean` seconds happens next."""
        return self.expovariate(1.0 / mean)


@dataclass(frozen=True, slots=True)
class Faults:
    """How often what goes wrong. Probabilities of a call, and mean seconds between events; 0: never."""

    # of each call to queue or store
    slow_call: float = 0.0
    lost_request: float = 0.0
    lost_reply: float = 0.0  # done, and the caller sees an error
    late_request: float = 0.0  # the caller sees an error, and some time after that it is done
    crash_at_call: float = 0.0  # the process ends just before or just after it
    duplicate: float = 0.0  # of each delivery: it comes again, with the same lease
    # of each call outside
    model_fails: float = 0.02
    tool_fails: float = 0.05
    tool_hangs: float = 0.01
    # seconds between
    crash: float = 0.0
    pause: float = 0.0  # SIGSTOP, up to three leases
    block: float = 0.0  # of the event loop alone
    queue_outage: float = 0.0
    store_outage: float = 0.0
    eviction: float = 0.0  # the broker hands a lease to somebody else, whatever its time
    clock_jump: float = 0.0
    drain: float = 0.0
    abort: float = 0.0  # stopped without a drain
    cancel: float = 0.0
    redrive: float = 0.0
    listener_raises: bool = False


CALM = Faults(model_fails=0.0, tool_fails=0.0, tool_hangs=0.0, drain=40.0, cancel=60.0)
WORLDS: dict[str, Faults] = {
    "calm": CALM,
    "outside": Faults(model_fails=0.15, tool_fails=0.25, tool_hangs=0.05, listener_raises=True),
    "network": Faults(
        slow_call=0.05, lost_request=0.01, lost_reply=0.02, late_request=0.01, duplicate=0.1
    ),
    "crashes": Faults(crash=15.0, crash_at_call=0.003, abort=60.0, redrive=40.0),
    "pauses": Faults(pause=20.0, block=25.0, slow_call=0.02, late_request=0.01),
    "outages": Faults(queue_outage=40.0, store_outage=40.0, lost_reply=0.01, redrive=40.0),
    "evictions": Faults(eviction=4.0, duplicate=0.1, drain=50.0, cancel=30.0),
    "clocks": Faults(clock_jump=20.0, pause=60.0, crash=60.0),
    "everything": Faults(
        slow_call=0.03,
        lost_request=0.005,
        lost_reply=0.01,
        late_request=0.005,
        crash_at_call=0.001,
        duplicate=0.05,
        model_fails=0.05,
        tool_fails=0.1,
        tool_hangs=0.02,
        crash=40.0,
        pause=50.0,
        block=80.0,
        queue_outage=90.0,
        store_outage=90.0,
        eviction=20.0,
        clock_jump=120.0,
        drain=60.0,
        abort=120.0,
        cancel=60.0,
        redrive=60.0,
        listener_raises=True,
    ),
}


@dataclass(frozen=True, slots=True)
class Plan:
    """A whole world. The same plan gives the same history."""

    seed: int
    world: str
    faults: Faults
    workers: int
    slots: int
    tasks: int
    sessions: int
    lease_seconds: float
    max_deliveries: int
    max_steps: int
    submit_seconds: float  # over which the tasks come in


_SECONDS_BETWEEN = (
    *("crash", "pause", "block", "queue_outage", "store_outage", "eviction", "clock_jump"),
    *("drain", "abort", "cancel", "redrive"),
)


def _hastened(faults: Faults) -> Faults:
    """The same faults, three times as often."""
    more = {}
    for name in faults.__slots__:
        value = getattr(faults, name)
        if name in _SECONDS_BETWEEN:
            more[name] = value / 3
        elif name != "listener_raises":
            more[name] = min(0.3, 3 * value)
    return replace(faults, **more)


def plan_of(seed: int) -> Plan:
    """Decide a world. Seeds in a row go through all kinds of them."""
    chance = Chance(seed, "plan")
    kinds = list(WORLDS)
    kind = kinds[seed % len(kinds)]
    faults = WORLDS[kind]
    if kind == "everything":
        # Not all at once in each world: what is rare hides behind what is frequent.
        off = [name for name in faults.__slots__ if chance.happens(0.3)]
        faults = replace(faults, **dict.fromkeys(off, 0))
        if Chance(seed, "haste").happens(0.3):
            faults = _hastened(faults)
    return Plan(
        seed=seed,
        world=kind,
        faults=faults,
        workers=chance.choice((2, 3, 3, 4)),
        slots=chance.choice((1, 2, 4, 8)),
        tasks=chance.randint(35, 65),
        sessions=chance.choice((0, 2, 4)),
        lease_seconds=chance.choice((6.0, 10.0)),
        max_deliveries=chance.choice((3, 5, 8)),
        max_steps=chance.choice((4, 8)),
        submit_seconds=chance.choice((10.0, 60.0)),
    )
