"""Let go of a run that an outage of the store has interrupted, once the store is back.

Left alone, its leases would have to run out before anybody could go on with it, and that would
use up a delivery for something that is not the task's fault.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from worker.core.errors import LeaseLost, StoreUnavailable
from worker.store.port import Journal, Run

FIRST_SECONDS = 0.1
LONGEST_SECONDS = 2.0


async def let_go(journal: Journal, run: Run, *, lost: Callable[[], bool], seconds: float) -> bool:
    """Release the run as soon as the store answers, if that is within `seconds`.

    True: whoever comes next can go on at once. False: somebody else has it, or the time is over.
    Cancelled: it is released or not.
    """
    clock, pause = asyncio.get_running_loop().time, FIRST_SECONDS
    ends = clock() + seconds
    while not lost() and clock() < ends:
        await asyncio.sleep(pause)
        pause = min(2 * pause, LONGEST_SECONDS)
        try:
            await journal.release(run, hold_seconds=0.0)
            return True
        except LeaseLost:
            return False
        except StoreUnavailable:
            continue
    return False
