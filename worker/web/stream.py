"""Follow one task: from the journal, so that any process can tell it, and resumable.

The journal is read again whenever a progress signal of this process hints at news, and every
`POLL_SECONDS` anyway, for the run may go on in another process. A watcher that is slow waits for
itself alone: nothing is queued for it, its next read fetches what is new since its last.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from worker.core.errors import IllegalEvent, StoreUnavailable
from worker.core.task import Result
from worker.store.port import Journal
from worker.web.steps import Narrator, StepUpdate

POLL_SECONDS = 0.5

# Waits for news, at most so many seconds; returning early or in vain does no harm.
News = Callable[[float], Awaitable[None]]
# Listens for news of a task while it is entered, which is before one looks: what happens between
# the look and the waiting would else be missed, and that is when a run has just ended.
Hint = Callable[[str], AbstractAsyncContextManager[News]]


@contextlib.asynccontextmanager
async def poll(task_id: str) -> AsyncIterator[News]:
    """Wait without a hint: for a watcher in a process that runs nothing itself."""
    yield asyncio.sleep


def hinted(subscribe: Callable[[str], Any]) -> Hint:
    """Listen to what `subscribe` tells of the tasks of this process (`Progress.subscribe`)."""

    @contextlib.asynccontextmanager
    async def listening(task_id: str) -> AsyncIterator[News]:
        try:
            updates = subscribe(task_id)
        except RuntimeError:  # too many watchers: without a hint it is only slower
            yield asyncio.sleep
            return

        async def news(seconds: float) -> None:
            try:
                async with asyncio.timeout(seconds):
                    await anext(updates, None)
            except TimeoutError:
                return

        try:
            yield news
        finally:
            await updates.aclose()

    return listening


async def follow(
    journal: Journal, task_id: str, *, after_seq: int = -1, hint: Hint = poll
) -> AsyncIterator[StepUpdate | None]:
    """Yield the updates after `after_seq` as they come; None when there was nothing new.

    Ends after the update that `is_final`. An outage of the store is waited out; of a run whose
    journal is damaged only the end is told.
    """
    narrator = Narrator()
    while True:
        async with hint(task_id) as news:
            try:
                updates, result = await _news(journal, task_id, narrator)
            except StoreUnavailable:
                updates, result = [], None
            if result is not None:
                updates.append(narrator.end(result))
            fresh = [update for update in updates if update.seq > after_seq]
            for update in fresh:
                yield update
            if result is not None:
                return
            if not fresh:
                yield None
            await news(POLL_SECONDS)


async def _news(
    journal: Journal, task_id: str, narrator: Narrator
) -> tuple[list[StepUpdate], Result | None]:
    try:
        view = await journal.view(task_id, after_seq=narrator.next_seq - 1)
        if view is not None:
            return narrator.tell(view.events), view.result
    except (IllegalEvent, LookupError, TypeError):
        pass  # a damaged journal: nobody can tell its steps, and its end will be told all the same
    return [], await journal.result(task_id)
