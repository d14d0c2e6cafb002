"""The rows of the table, in order: each fault, and where it can happen at all."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from tests.matrix import crashes, outages
from tests.matrix.engines import Setup
from tests.matrix.world import Outcome, World
from tests.system.test_kill import POINTS


@dataclass(frozen=True, slots=True)
class Fault:
    """One row. `happens` says why not, on a setup where it cannot happen; else it is empty."""

    name: str
    work: Callable[[World], Awaitable[Outcome]]
    happens: Callable[[Setup], str] = lambda setup: ""


def has_server(setup: Setup) -> str:
    """A file has no server that could go away."""
    return "" if setup.broker else "a file"


def is_split(setup: Setup) -> str:
    """One server is never away without itself."""
    return "" if setup.is_split else "one place"


def in_a_file(setup: Setup) -> str:
    """A disk that a worker writes to."""
    return "" if setup.broker is None else "the server's disk"


def on_redis(setup: Setup) -> str:
    """A limit that can be set while the server runs."""
    return "" if "Redis" in setup.name else "not Redis"


FAULTS = (
    *(Fault(f"kill -9: {point}", partial(crashes.killed_at, point=point)) for point in POINTS),
    *(
        Fault(
            f"kill -9 in submit, {moment} the confirm",
            partial(crashes.killed_in_submit, moment=moment),
        )
        for moment in ("before", "after")
    ),
    Fault("SIGSTOP for longer than the lease", crashes.frozen),
    Fault("event loop blocked for good", crashes.blocked),
    *(
        Fault(
            f"broker killed and back: {moment}",
            partial(outages.killed_while, moment=moment),
            has_server,
        )
        for moment in ("idle", "receive", "task", "ack", "submit")
    ),
    Fault("half-open connection", outages.half_open, has_server),
    Fault("slow broker, 0.2 s each way", outages.slow, has_server),
    Fault("store down, broker up", partial(outages.away, which="store"), is_split),
    Fault("broker down, store up", partial(outages.away, which="broker"), is_split),
    Fault("full disk", outages.full_file, in_a_file),
    Fault("full memory", outages.full_memory, on_redis),
    Fault("wall clock + 1 h", partial(crashes.clock_moved, seconds=3600)),
    Fault("wall clock - 1 h", partial(crashes.clock_moved, seconds=-3600)),
    Fault("poison that kills the process", crashes.poisoned),
    Fault("rolling restart, twice within a lease", crashes.restarted),
    Fault("cancel storm", crashes.called_off),
)
