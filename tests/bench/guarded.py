"""What a guarded call costs beyond the call itself: `python -m tests.bench.guarded`.

The first attempt succeeds, and all listeners of a worker hear about it. Prints one JSON object.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import time
from pathlib import Path
from typing import Any, TextIO

from tests.bench.worked import export_to_nobody
from worker import Settings
from worker.guard.guard import AttemptInfo, CallPolicy, Guard, GuardPolicy
from worker.observability import build_observability

CALLS = 2_000
ROUNDS = 7


async def bare(info: Any) -> int:
    """The call itself."""
    return 42


def plain(info: AttemptInfo) -> int:
    """The same for the thread pool."""
    return 42


async def seconds_each(call: Any) -> float:
    """Return the CPU seconds of one call, all threads."""
    began = time.process_time()
    for _ in range(CALLS):
        await call()
    return (time.process_time() - began) / CALLS


async def measure(nowhere: TextIO) -> dict[str, float]:
    """Interleave bare and guarded calls; return microseconds beyond the bare call."""
    export_to_nobody()
    seen = build_observability(Settings(), worker_id="bench", stream=nowhere)
    guard = Guard("bench", GuardPolicy(), telemetry=seen.telemetry)
    policy = CallPolicy(kind="tool", target="bench", timeout_seconds=5.0, deadline_seconds=15.0)
    extra: dict[str, list[float]] = {"async": [], "sync": []}
    for _ in range(ROUNDS + 1):
        base = await seconds_each(lambda: bare(None))
        extra["async"].append(await seconds_each(lambda: guard.call(bare, policy)) - base)
        extra["sync"].append(await seconds_each(lambda: guard.call(plain, policy)) - base)
    guard.close()
    await seen.close(seconds=1.0)
    # The first round is the warm-up.
    return {f"{name}_us": statistics.median(each[1:]) * 1e6 for name, each in extra.items()}


def main() -> None:
    """Measure and print."""
    with Path(os.devnull).open("w") as nowhere:
        print(json.dumps(asyncio.run(measure(nowhere))))


if __name__ == "__main__":
    main()
