"""What the cells of the matrix look like, alone and as a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.matrix.faults import Fault
from tests.matrix.reports import REPORTS, Report
from tests.matrix.world import LEASE_SECONDS, Outcome

NAMES = {
    "sqlite": "SQLite",
    "postgresql": "PostgreSQL",
    "redis": "Redis",
    "rabbitmq": "RabbitMQ + Redis",
    "nats": "NATS + Redis",
}
LEGEND = f"""\
Written by `make crash-matrix`: real processes and servers, a lease of {LEASE_SECONDS:g} s where nothing else is needed.
*lost / made twice / seconds*: tasks without a result, bookings made more than once, and how long after the cure the
last task had its result. ✗ marks a broken promise: something lost or twice, two results, a queue that is not empty, or
later than the bound (lease + 5 s; half-open: the lease or the time until the client gives a silent connection up,
whichever is longer, + 5 s; slow: 30 s).
– : cannot happen there.
"""


@dataclass(frozen=True, slots=True)
class Cell:
    """A fault on an engine: what came of it, or why there is nothing."""

    outcome: Outcome | None
    reason: str = ""
    is_broken: bool = False

    @property
    def is_sound(self) -> bool:
        """Whether no promise was broken."""
        return not self.is_broken and (self.outcome is None or self.outcome.is_sound)


def shown(cell: Cell) -> str:
    """Write a cell."""
    found = cell.outcome
    if found is None:
        return f"✗ {cell.reason}" if cell.is_broken else "–"
    figures = f"{found.lost} / {found.duplicated} / {found.seconds:.1f}"
    if found.is_sound:
        return figures
    late = "late" if found.seconds > found.bound_seconds else ""
    return f"✗ {figures} {found.odd or late}".rstrip()


def page(columns: Mapping[str, Sequence[Cell]], faults: Sequence[Fault]) -> str:
    """Write the whole page."""
    head = ["fault", *(NAMES[engine] for engine in columns)]
    rows = [
        [fault.name, *(shown(cells[number]) for cells in columns.values())]
        for number, fault in enumerate(faults)
    ]
    lines = [head, ["---"] * len(head), *rows]
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return f"# What breaks when something breaks\n\n{LEGEND}\n{table}\n\n{reported()}"


def reported() -> str:
    """Write what was reported of other queues and workers, and what covers it here."""
    lines = [["reported", "what went wrong", "covered here by"], ["---"] * 3]
    lines += [[one.places, one.trouble, _covering(one)] for one in REPORTS]
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return f"## What went wrong elsewhere\n\n{table}\n"


def _covering(report: Report) -> str:
    tests = [f"`{name.removeprefix('tests/')}`" for name in report.tests]
    faults = [f"the fault *{name}*" for name in report.faults]
    return ", ".join([*faults, *tests, *filter(None, [report.note])])
