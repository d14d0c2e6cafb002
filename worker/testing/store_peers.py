"""What the workers on a store tell each other: sentences G1 to G5 of `store/peers.py`."""

from __future__ import annotations

import pytest

from worker.core.errors import StoreUnavailable
from worker.store.peers import WORDS_MAX
from worker.store.port import Store
from worker.testing.harness import StoreHarness
from worker.testing.store_case import StoreCase

STAY = 60.0


class StorePeers(StoreCase):
    """Part of the store's suite."""

    async def test_g01_words_stand_until_their_end(
        self, store: Store, harness: StoreHarness
    ) -> None:
        """What is said is heard by all until it is said anew, and for its time at most."""
        seconds = self.lease_seconds
        other = await harness.open()
        await store.peers.gossip("a", "one", ttl_seconds=seconds)
        await other.peers.gossip("b", "two\ud800", ttl_seconds=STAY)
        first = await store.peers.gossip("a", "three", ttl_seconds=seconds)
        await harness.pass_time(seconds + 0.1)
        later = await other.peers.gossip("b", None, ttl_seconds=STAY)

        assert (first.workers, sorted(first.words)) == (2, ["three", "two?"])
        assert (later.workers, later.words) == (1, ("two?",))

    async def test_g02_the_silent_are_there(self, store: Store) -> None:
        """A worker that has nothing to say is counted; one that only listens is not."""
        await store.peers.gossip("a", "", ttl_seconds=STAY)
        heard = await store.peers.gossip("b", None, ttl_seconds=STAY)

        assert (heard.workers, heard.words) == (1, ())

    async def test_g03_what_was_said_can_be_taken_back(self, store: Store) -> None:
        """Saying nothing any more removes the words, not the worker."""
        await store.peers.gossip("a", "one", ttl_seconds=STAY)
        heard = await store.peers.gossip("a", "", ttl_seconds=STAY)

        assert (heard.workers, heard.words) == (1, ())

    async def test_g04_outage(self, store: Store, harness: StoreHarness) -> None:
        """An outage is told, and over when it is."""
        async with harness.outage():
            with pytest.raises(StoreUnavailable):
                await store.peers.gossip("a", "one", ttl_seconds=STAY)
        assert (await store.peers.gossip("a", "one", ttl_seconds=STAY)).workers == 1

    async def test_g05_words_are_bounded(self, store: Store) -> None:
        """Nobody can fill the store with talk."""
        with pytest.raises(ValueError, match="characters"):
            await store.peers.gossip("a", "x" * (WORDS_MAX + 1), ttl_seconds=STAY)
