"""`make crash-matrix`: every fault on every engine, as a table: lost, made twice, seconds to recover.

Real processes and servers, killed for real. Exit code 1 when a promise was broken somewhere.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from tests.matrix import papers
from tests.matrix.engines import ENGINES, Setup
from tests.matrix.faults import FAULTS, Fault
from tests.matrix.table import Cell, page, shown
from tests.matrix.world import world

CELL_SECONDS_MAX = 150.0


async def cell(fault: Fault, setup: Setup) -> Cell:
    """Let the fault happen on the setup."""
    reason = fault.happens(setup)
    if reason:
        return Cell(None, reason)
    with tempfile.TemporaryDirectory(prefix="matrix-") as made:
        async with world(setup, Path(made)) as here:
            try:
                async with asyncio.timeout(CELL_SECONDS_MAX):
                    return Cell(await fault.work(here))
            except Exception as error:  # a cell that breaks is a result, and the others go on
                print(f"\n{fault.name} on {setup.name}: {error!r}\n{here.site.report()}")
                traceback.print_exc()
                return Cell(None, f"broke: {type(error).__name__}", is_broken=True)


async def run(engine: str, faults: Sequence[Fault]) -> list[Cell]:
    """All faults on one engine."""
    cells = []
    with (
        tempfile.TemporaryDirectory(prefix=f"{engine}-") as made,
        ENGINES[engine](Path(made)) as setup,
    ):
        for fault in faults:
            began = time.monotonic()
            cells.append(await cell(fault, setup))
            seconds = time.monotonic() - began
            print(f"{setup.name}: {fault.name}: {shown(cells[-1])} ({seconds:.1f} s)", flush=True)
    return cells


def main() -> int:
    """Read the options, run, print, write."""
    parser = argparse.ArgumentParser(prog="make crash-matrix", description=__doc__)
    parser.add_argument(
        "--engines", default=",".join(ENGINES), help="some of " + ", ".join(ENGINES)
    )
    parser.add_argument("--only", default="", help="faults whose name contains one of these a,b")
    parser.add_argument("--no-write", action="store_true", help="leave RESULTS.md as it is")
    options = parser.parse_args()
    engines = options.engines.split(",")
    wanted = options.only.split(",")
    faults = [fault for fault in FAULTS if any(part in fault.name for part in wanted)]
    columns = {engine: asyncio.run(run(engine, faults)) for engine in engines}
    text = page(columns, faults)
    print(f"\n{text}")
    if not options.no_write and not options.only and set(engines) == set(ENGINES):
        papers.write(text)
    return 0 if all(each.is_sound for cells in columns.values() for each in cells) else 1


if __name__ == "__main__":
    sys.exit(main())
