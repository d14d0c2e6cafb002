"""The Redis store keeps the contract of a store, on a real server."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
import redis.asyncio

from tests.conformance.atserver import StoreAtServer
from tests.conformance.oneserver import OneServer
from tests.servers.proxy import Proxy
from worker.core.errors import StoreUnavailable
from worker.core.task import Result
from worker.redislink import RedisLink
from worker.redistalk import Script
from worker.store.codec import encode
from worker.store.port import SessionClaim
from worker.store.redis import RedisStore
from worker.store.redis_journal import APPEND, EVENTS_PAGE, OPEN
from worker.testing.harness import FakeClock
from worker.testing.session_case import TTL_SECONDS, turn_of
from worker.testing.store_case import note
from worker.testing.store_mail import expecting
from worker.testing.store_suite import StoreSuite

pytestmark = pytest.mark.system


class RedisHarness(OneServer):
    """A prefix; every store has connections of its own, and the clock begins as elsewhere."""

    def __init__(self, proxy: Proxy) -> None:
        super().__init__(proxy)
        self.moved = FakeClock().now - time.time()

    async def open(self) -> RedisStore:
        """Open a store as another process would."""
        store = RedisStore(RedisLink(self.settings, unavailable=StoreUnavailable))
        self.opened.append(store)
        return store


class TestRedisStore(StoreSuite, StoreAtServer):
    """The Redis store."""

    @pytest.fixture
    async def harness(self, redis_proxy: Proxy) -> AsyncIterator[RedisHarness]:
        """An empty part of the server."""
        harness = RedisHarness(redis_proxy)
        yield harness
        await harness.close()

    async def test_words_that_are_no_text_hurt_nobody(self, harness: RedisHarness) -> None:
        """A damaged row among what the workers say is heard as something unreadable."""
        store = await harness.open()
        await store.peers.gossip("a", "one", ttl_seconds=60)
        async with redis.asyncio.Redis(port=harness.proxy.server_port) as other:
            await other.hset(f"{store.keys[0]}:peer-words", "b", b"\xff\xfe")
        heard = await store.peers.gossip("a", None, ttl_seconds=60)

        assert sorted(heard.words) == ["one", "\ufffd\ufffd"]

    async def test_a_long_journal_is_read_in_pages(self, harness: RedisHarness) -> None:
        """More batches than one script gives are opened and shown whole, from wherever one looks."""
        store, count = await harness.open(), 2 * EVENTS_PAGE + 50
        run = await self.begin(store)
        for number in range(count):
            await store.append(run, [note(number)])

        assert (await store.open("t", owner="w1", lease_seconds=1)).events == tuple(
            map(note, range(count))
        )
        for after in (-1, 0, EVENTS_PAGE, count - 2):
            view = await store.view("t", after_seq=after)
            assert [event["seq"] for event in view.events] == list(range(after + 1, count))

    async def test_an_append_whose_answer_got_lost(self, harness: RedisHarness) -> None:
        """It was written: made again it is not written twice, and what comes next goes behind it."""
        store = await harness.open()
        run = await self.begin(store)
        for lost, after in ((note(0), note(0)), (note(1), note(2))):
            with harness.proxy.losing_answers(), pytest.raises(StoreUnavailable):
                await store.append(run, [lost])
            await store.append(run, [after])

        assert [event["data"]["at"] for event in await self.events(store)] == [0.0, 1.0, 2.0]
        assert run.next_seq == 3

    async def test_a_finish_after_an_append_whose_answer_got_lost(
        self, harness: RedisHarness
    ) -> None:
        """The end goes behind it; when the answer to that gets lost as well, it may be made again."""
        store = await harness.open()
        run = await self.begin(store)
        result = Result(task_id="t", status="completed")
        with harness.proxy.losing_answers(), pytest.raises(StoreUnavailable):
            await store.append(run, [note(0)])
        await store.append(run, [note(1)])
        with harness.proxy.losing_answers(), pytest.raises(StoreUnavailable):
            await store.append(run, [note(2)])
        await store.finish(run, [note(3)], result)

        again = await self.begin(store, "u")
        with harness.proxy.losing_answers(), pytest.raises(StoreUnavailable):
            await store.finish(again, [note(0)], Result(task_id="u", status="completed"))
        await store.finish(again, [note(0)], Result(task_id="u", status="completed"))

        assert [event["data"]["at"] for event in await self.events(store)] == [0.0, 1.0, 2.0, 3.0]
        assert len(await self.events(store, "u")) == 1
        assert await store.result("t") == result

    async def test_a_write_that_comes_late_changes_nothing(self, harness: RedisHarness) -> None:
        """What a server reads from a connection that was given up long ago finds its place taken."""
        store = await harness.open()
        run = await self.begin(store)
        await store.append(run, [note(0)])
        await store.append(run, [note(1)])
        before = await self.events(store)
        link = RedisLink(harness.settings, unavailable=StoreUnavailable)
        for body in (encode([note(0)]), encode([note(9)])):
            await link.run(APPEND, store.keys, "t", run.epoch, 0, 1, body)
        await link.close()

        assert await self.events(store) == before
        await store.append(run, [note(2)])
        assert len(await self.events(store)) == 3

    async def test_everything_is_in_one_slot_and_nothing_is_left(
        self, harness: RedisHarness
    ) -> None:
        """Every key begins with the name in braces; what is over leaves no key behind."""
        store = await harness.open()
        for number in range(3):
            claim = SessionClaim("s", place=float(number))
            opened = await store.open(f"t{number}", owner="w", lease_seconds=30, session=claim)
            await store.mail.expect(expecting("a", f"t{number}", asked_at=1.0))
            await store.mail.post("a", b"1")
            await store.mail.answered(f"t{number}", ["a"])
            result = Result(task_id=f"t{number}", status="completed")
            await store.finish(opened.run, [note(1)], result, turn=turn_of("x"))
        await store.request_cancel("never came")
        async with redis.asyncio.Redis(port=harness.proxy.server_port) as other:
            name = store.keys[0]
            before = await other.keys(name.replace("[", "\\[") + "*")
            everything = await other.keys("*" + harness.settings.prefix + "*")
            await harness.pass_time(TTL_SECONDS * 2)
            await store.prune(older_than_seconds=1)
            await store.mail.forget(older_than_seconds=1)
            after = await other.keys(name + "*")

        assert len(before) > 15 and sorted(before) == sorted(everything)
        assert {key.decode().removeprefix(f"{name}:") for key in after} <= {
            *("n", "unexpected-bytes")
        }


class RepeatingLink(RedisLink):
    """A link on which whatever is written comes a second time, as if the network had kept it."""

    async def run(self, script: Script, keys: Sequence[str], *values: Any, **options: Any) -> Any:
        """Run it twice, and tell the first answer."""
        told = await super().run(script, keys, *values, **options)
        if script is not OPEN:  # of which each is a new owner
            await super().run(script, keys, *values, **options)
        return told


class RepeatingHarness(RedisHarness):
    """A server that hears everything twice."""

    async def open(self) -> RedisStore:
        """Open a store whose writes are repeated."""
        store = RedisStore(RepeatingLink(self.settings, unavailable=StoreUnavailable))
        self.opened.append(store)
        return store


class TestRedisStoreTwice(TestRedisStore):
    """The Redis store, each of whose writes reaches the server twice."""

    @pytest.fixture
    async def harness(self, redis_proxy: Proxy) -> AsyncIterator[RepeatingHarness]:
        """An empty part of the server."""
        harness = RepeatingHarness(redis_proxy)
        yield harness
        await harness.close()
