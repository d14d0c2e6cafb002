"""Waiting for what somebody has to keep, also where the one who asked for it has gone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

T = TypeVar("T")


async def kept(outcome: asyncio.Future[T], *, undo: Callable[[T], Awaitable[Any]]) -> T:
    """Wait for an outcome that somebody has to keep.

    Cancelled: waits for it all the same, has it undone, and raises CancelledError then, so that
    whoever is told afterwards that it is free finds it free. Cancelled once more, it is left alone.
    """
    if outcome.done():
        return outcome.result()
    try:
        return await asyncio.shield(outcome)
    except asyncio.CancelledError:
        await asyncio.wait([outcome])
        if outcome.exception() is None:
            await undo(outcome.result())
        raise
