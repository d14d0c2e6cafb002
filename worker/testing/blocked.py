"""A call from another thread, while the event loop of this one is kept from everybody."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from worker.testing.harness import PATIENCE_SECONDS

T = TypeVar("T")


def call_beside_blocked_loop(call: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a call in the event loop of another thread, and block this one until it comes back.

    Raises TimeoutError when it needs the loop that is blocked.
    """
    pool = ThreadPoolExecutor(1)
    try:
        return pool.submit(lambda: asyncio.run(call())).result(PATIENCE_SECONDS)
    finally:
        pool.shutdown(wait=False)
