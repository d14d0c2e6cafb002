"""Doing much at once, but no more than any engine has connections for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

A = TypeVar("A")
T = TypeVar("T")
AT_ONCE = 16


async def for_each(work: Callable[[A], Awaitable[T]], things: Sequence[A]) -> list[T]:
    """Do the work for each of them, and return what came of it, in their order."""
    outcomes: list[T] = []
    for start in range(0, len(things), AT_ONCE):
        outcomes += await asyncio.gather(*map(work, things[start : start + AT_ONCE]))
    return outcomes
