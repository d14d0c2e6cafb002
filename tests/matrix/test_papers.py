"""The README shows what was measured last, on every engine, and every promise was kept."""

from __future__ import annotations

import pytest

from tests.matrix.engines import ENGINES
from tests.matrix.faults import FAULTS
from tests.matrix.papers import PAGE, README, with_table
from tests.matrix.table import NAMES

MEASURED = PAGE.read_text(encoding="utf-8")


def test_the_readme_holds_the_table_as_measured():
    """Written by the run that measured it, not by hand."""
    readme = README.read_text(encoding="utf-8")

    assert with_table(readme, MEASURED) == readme


def test_every_fault_was_measured_on_every_engine():
    """A fault that was added since then asks for a new run."""
    head, _, *rows = MEASURED[MEASURED.index("| fault ") :].split("\n\n")[0].splitlines()

    assert head.strip("| ").split(" | ") == ["fault", *(NAMES[engine] for engine in ENGINES)]
    assert [row.strip("| ").split(" | ")[0] for row in rows] == [fault.name for fault in FAULTS]
    assert all(len(row.strip("| ").split(" | ")) == 1 + len(ENGINES) for row in rows)


def test_no_promise_was_broken():
    """What breaks one is mended before the table is kept."""
    assert "✗" not in MEASURED.split("## What went wrong elsewhere")[0].replace(
        "✗ marks a broken promise", ""
    )


def test_a_readme_without_a_place_is_an_error():
    """The table does not vanish in silence."""
    with pytest.raises(ValueError, match="no place"):
        with_table("# loopworker", MEASURED)
