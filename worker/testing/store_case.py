"""What the tests of a store stand on: fixtures to open one, and runs to try it with."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from worker.core.events import NoteAdded
from worker.store.port import Run, Store
from worker.testing.harness import StoreHarness


def note(number: int, *, text: str = "x") -> NoteAdded:
    """A small event that can be told from others."""
    return NoteAdded(at=float(number), kind="test", text=text)


class StoreCase:
    """A store under test; the base of the suite."""

    lease_seconds: ClassVar[float] = 30.0

    @pytest.fixture
    async def harness(self) -> StoreHarness:
        """The engine under test; to be given by the subclass."""
        raise NotImplementedError("give the suite a harness fixture")

    @pytest.fixture
    async def store(self, harness: StoreHarness) -> Store:
        """A store on the empty engine."""
        return await harness.open()

    async def begin(self, store: Store, run_id: str = "t", *, owner: str = "w1") -> Run:
        """Open a run that must be free."""
        opened = await store.open(run_id, owner=owner, lease_seconds=self.lease_seconds)
        assert opened.run is not None
        return opened.run

    async def events(self, store: Store, run_id: str = "t") -> list[dict[str, Any]]:
        """The events of a run, as written."""
        view = await store.view(run_id)
        return [] if view is None else list(view.events)
