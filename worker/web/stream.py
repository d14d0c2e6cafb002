"""Follow one task: from the journal, so that any process can tell it, and resumable.

The journal is read again whenever a progress signal of this process hints at news, and every
`POLL_SECONDS` anyway, for the run may go on in another process. A watcher that is slow waits for
itself alone: nothing is queued for it, its next read fetches what is new since its last.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

from worker.core.errors import StoreUnavailable
from worker.core.task import Result
from worker.store.port import Journal
from worker.web.steps import Narrator, StepUpdate

POLL_SECONDS = 0.5

# Waits for news of a task, at most so many seconds; returning early or in vain does no harm.
Hint = Callable[[str, float], Awaitable[None]]


async def poll(task_id: str, seconds: float) -> None:
    """Wait without a hint: for a watcher in a process that runs nothing itself."""
    await asyncio.sleep(seconds)


async def follow(
    journal: Journal, task_id: str, *, after_seq: int = -1, hint: Hint = poll
) -> AsyncIterator[StepUpdate | None]:
    """Yield the updates after `after_seq` as they come; None when there was nothing new.

    Ends after the update that `is_final`. An outage of the store is waited out.
    """
    narrator = Narrator()
    while True:
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
        await hint(task_id, POLL_SECONDS)


async def _news(
    journal: Journal, task_id: str, narrator: Narrator
) -> tuple[list[StepUpdate], Result | None]:
    view = await journal.view(task_id, after_seq=narrator.next_seq - 1)
    if view is None:
        return [], await journal.result(task_id)
    return narrator.tell(view.events), view.result
