"""What the tests of sessions stand on: turns that can be told apart, and runs that take one."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from worker.core.errors import SessionBusy
from worker.core.history import RawMessage
from worker.core.task import Result
from worker.store.port import (
    Opened,
    Run,
    SessionClaim,
    Store,
    Turn,
)
from worker.testing.store_case import StoreCase, note

TTL_SECONDS = 3600.0


def turn_of(name: str, *, size: int = 0, bytes_max: int = 1_000_000) -> Turn:
    """A turn with a call, that can be told from others."""
    call = {"id": f"c-{name}", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    messages: list[RawMessage] = [
        {"role": "user", "content": f"question {name}"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"c-{name}", "content": "x" * size or "seen"},
        {"role": "assistant", "content": f"answer {name}"},
    ]
    return Turn(tuple(messages), ttl_seconds=TTL_SECONDS, bytes_max=bytes_max)


def done(run: Run) -> Result:
    """A result for a run."""
    return Result(task_id=run.id, status="completed")


class SessionCase(StoreCase):
    """A store under test, and runs with a session."""

    async def have(
        self,
        store: Store,
        run_id: str,
        *,
        owner: str = "w1",
        place: float = 0.0,
        session: str = "s",
        tenant: str = "",
    ) -> Opened:
        """Open a run with its session."""
        claim = SessionClaim(session, tenant, place)
        return await store.open(
            run_id, owner=owner, lease_seconds=self.lease_seconds, session=claim
        )

    async def run_of(self, store: Store, run_id: str, *, place: float = 0.0) -> Run:
        """Open a run that must get the session."""
        opened = await self.have(store, run_id, place=place)
        assert opened.run is not None
        return opened.run

    async def busy(self, store: Store, run_id: str, *, place: float = 0.0) -> int:
        """Be told that the session is busy; returns how many are ahead."""
        with pytest.raises(SessionBusy) as caught:
            await self.have(store, run_id, place=place)
        return caught.value.ahead

    async def answer(self, store: Store, run_id: str, turn: Turn | None = None) -> Run:
        """Take a run of the session from its beginning to its end."""
        run = await self.run_of(store, run_id)
        await store.finish(run, [note(0)], done(run), turn=turn or turn_of(run_id))
        return run

    async def told(self, store: Store, session: str = "s", *, tenant: str = "") -> list[str]:
        """The names of the turns in a conversation."""
        return named(await store.conversation(session, tenant=tenant))


def named(messages: Sequence[RawMessage]) -> list[str]:
    """The names of the turns in some messages."""
    asked = [str(message["content"]) for message in messages if message["role"] == "user"]
    return [text.removeprefix("question ") for text in asked]
