"""What an engine cannot do, in words: what then, and who keeps the promise in its place."""

from __future__ import annotations

from worker.queues.port import Capabilities

# By the field of Capabilities: the promise; what happens instead, and what makes up for it.
GAPS = {
    "deduplicates": (
        "an id that is known is not taken again",
        "`put` takes it again; the journal knows its run, and the second ticket is settled unrun",
    ),
    "extends": (
        "a lease outlives its connection",
        "it goes with it; the next worker takes the run over, and the journal fences the first",
    ),
    "finds": (
        "a waiting task is found by its id",
        "a wake puts a second ticket beside it, and one called off ends when it is claimed, both by"
        " the journal; where it is, is known as long as a process lives that had it in hand",
    ),
    "refuses_stale": (
        "who lost a lease is told so",
        "it is not told; the journal fences it",
    ),
    "tells_oldest": (
        "`depth` knows since when the oldest task is ready",
        "it does not; the lease tells how long its task has waited",
    ),
}


def gaps_of(capabilities: Capabilities) -> list[str]:
    """The names of what is missing, in the order of the table."""
    return [name for name in GAPS if not getattr(capabilities, name)]
