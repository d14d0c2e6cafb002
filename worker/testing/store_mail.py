"""The contract of the mailbox as tests (M1 to M10), for any adapter; part of the store's suite."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from worker.core.errors import MailboxFull, StoreUnavailable
from worker.core.task import Result
from worker.store.mailbox import KEPT_BYTES_MAX, Expectation, body_digest
from worker.store.port import Store
from worker.testing.harness import StoreHarness
from worker.testing.store_case import StoreCase

NOW = 1_800_000_000.0


def expecting(address: str = "a", run_id: str = "t", **fields: object) -> Expectation:
    """An expectation of a run, in words that a model may have found."""
    made = Expectation(
        address=address,
        run_id=run_id,
        call_id="c1",
        kind="approval",
        tool="退款",
        arguments='{"order":"käse"}',
        digest="sha256:0123456789abcdef",
        asked_at=NOW,
        expires_at=NOW + 3600,
    )
    return replace(made, **fields)  # type: ignore[arg-type]


class StoreMail(StoreCase):
    """What is expected and what is posted, in either order."""

    async def test_m01_post_and_read(self, store: Store, harness: StoreHarness) -> None:
        """What is posted is read by another process, expected or not, byte for byte."""
        body = bytes(range(256)) * 40
        await store.mail.expect(expecting("käse/1"))
        await store.mail.post("käse/1", body)
        await store.mail.post("early", b"")

        other = (await harness.open()).mail
        found = {posted.address: posted for posted in await other.read(["käse/1", "early", "no"])}

        assert {address: posted.body for address, posted in found.items()} == {
            "käse/1": body,
            "early": b"",
        }
        assert found["käse/1"].digest == body_digest(body)
        assert found["early"].posted_at > 0
        assert await other.read([]) == []

    async def test_m02_first_post_stays(self, store: Store, harness: StoreHarness) -> None:
        """A second post is told of the first, whatever it says, and changes nothing."""
        other = (await harness.open()).mail
        await store.mail.expect(expecting())
        first = await store.mail.post("a", b"yes")
        second = await other.post("a", b"no")

        assert (first.is_first, second.is_first) == (True, False)
        assert (first.posted, first.waiting) == (second.posted, second.waiting)
        assert (first.posted.body, first.waiting) == (b"yes", ("t",))
        assert [posted.body for posted in await other.read(["a"])] == [b"yes"]

    async def test_m02_racing_posts(self, harness: StoreHarness) -> None:
        """Of many that post at once one is the first, and all are told the same."""
        stores = [await harness.open() for _ in range(4)]
        posts = [stores[n % 4].mail.post("a", b"%d" % n) for n in range(40)]

        receipts = await asyncio.gather(*posts)

        assert sum(receipt.is_first for receipt in receipts) == 1
        assert len({receipt.posted for receipt in receipts}) == 1

    async def test_m02_racing_posts_that_are_expected(self, harness: StoreHarness) -> None:
        """One is the first, and whoever begins to wait meanwhile is told of, or finds it there."""
        store, other = await harness.open(), await harness.open()
        for turn in range(8):
            address = f"a{turn}"
            await store.mail.expect(expecting(address))
            posts = [each.mail.post(address, b"1") for each in (store, other) * 4]
            waiting = asyncio.create_task(self.is_found(other, expecting(address, "late")))
            receipts = await asyncio.gather(*posts)

            (first,) = [receipt for receipt in receipts if receipt.is_first]
            assert "t" in first.waiting
            assert await waiting or "late" in first.waiting

    async def is_found(self, store: Store, expectation: Expectation) -> bool:
        """Begin to wait for something, and look whether it has come already."""
        await store.mail.expect(expectation)
        return bool(await store.mail.read([expectation.address]))

    async def test_m03_expect(self, store: Store, harness: StoreHarness) -> None:
        """Asking twice is expecting once; another run may expect the same, before or after."""
        other = (await harness.open()).mail
        await store.mail.expect(expecting())
        await store.mail.expect(expecting(expires_at=NOW + 7200))
        await other.expect(expecting(run_id="u"))
        receipt = await other.post("a", b"1")
        await store.mail.expect(expecting(run_id="v"))

        assert receipt.waiting == ("t", "u")
        assert (await other.post("a", b"1")).waiting == ("t", "u", "v")
        assert await store.mail.at("a") == [
            expecting(expires_at=NOW + 7200),
            expecting(run_id="u"),
            expecting(run_id="v"),
        ]

    async def test_m04_listing(self, store: Store) -> None:
        """A run's expectations come in the order of asking, answered or not; pending ones apart."""
        for number in (3, 1, 2):
            await store.mail.expect(expecting(f"a{number}", call_id=f"c{number}"))
        await store.mail.expect(expecting("job", "u", kind="job"))
        await store.mail.answered("t", ["a1"])

        of_run = [(each.call_id, each.answered) for each in await store.mail.expected("t")]
        assert of_run == [("c3", False), ("c1", True), ("c2", False)]
        pending = await store.mail.pending(kind="approval")
        assert [each.call_id for each in pending] == ["c3", "c2"]
        assert [e.call_id for e in await store.mail.pending(kind="approval", limit=1)] == ["c3"]
        assert await store.mail.pending(kind="job") == [expecting("job", "u", kind="job")]
        assert await store.mail.expected("unknown") == []

    async def test_m05_unexpected_posts_are_bounded(self, store: Store) -> None:
        """A flood of posts for nobody ends in a refusal; what is expected still goes through."""
        store.mail.unexpected_max = 20
        await store.mail.expect(expecting())
        await asyncio.gather(*[store.mail.post(f"x{number}", b"1") for number in range(20)])

        with pytest.raises(MailboxFull):
            await store.mail.post("one more", b"1")
        assert (await store.mail.post("x3", b"1")).is_first is False
        assert (await store.mail.post("a", b"1")).is_first is True
        assert await store.mail.read(["one more"]) == []
        await store.mail.expect(expecting("x7"))
        assert (await store.mail.post("one more", b"1")).is_first is True

    async def test_m05_posts_at_once_are_bounded(self, store: Store) -> None:
        """Many that come together get no further than one after the other."""
        store.mail.unexpected_max = 20
        posts = [store.mail.post(f"x{number}", b"1") for number in range(30)]
        outcomes = await asyncio.gather(*posts, return_exceptions=True)

        assert sum(isinstance(outcome, MailboxFull) for outcome in outcomes) == 10

    async def test_m05_bytes_are_bounded(self, store: Store) -> None:
        """Few large posts for nobody are too many as well."""
        store.mail.unexpected_bytes_max = 1000
        await store.mail.post("x", b"1" * 900)

        with pytest.raises(MailboxFull):
            await store.mail.post("y", b"1" * 101)
        assert (await store.mail.post("z", b"1" * 100)).is_first is True
        await store.mail.expect(expecting("x"))
        assert (await store.mail.post("y", b"1" * 900)).is_first is True

    async def test_m06_answered(self, store: Store) -> None:
        """What was taken waits no more; the last one takes a large body, the address remembers."""
        large = b"x" * (KEPT_BYTES_MAX + 1)
        for run_id in ("t", "u"):
            await store.mail.expect(expecting(run_id=run_id))
        await store.mail.expect(expecting("never"))
        await store.mail.expect(expecting("small"))
        await store.mail.post("small", b"yes")
        first = await store.mail.post("a", large)
        await store.mail.answered("t", ["a", "never", "unknown", "small"])
        held, small = await store.mail.read(["a", "small"])
        await store.mail.answered("u", ["a"])
        (taken,) = await store.mail.read(["a"])

        assert (held.body, taken.body, small.body) == (large, b"", b"yes")
        assert (taken.digest, taken.posted_at) == (first.posted.digest, first.posted.posted_at)
        again = await store.mail.post("a", large)
        assert (again.is_first, again.waiting) == (False, ())
        assert [each.answered for each in await store.mail.at("never")] == [True]
        assert await store.mail.pending(kind="approval") == []

    async def test_m07_forget(self, store: Store, harness: StoreHarness) -> None:
        """What is old and over goes; what an unfinished run waits for stays, however old."""
        now = (await store.mail.post("early", b"1")).posted.posted_at
        for run_id in ("waits", "took", "over"):
            await self.begin(store, run_id)
            await store.mail.expect(expecting(run_id, run_id, asked_at=now))
            await store.mail.post(run_id, b"1")
        await store.mail.answered("took", ["took"])
        await store.put_result(Result(task_id="over", status="cancelled"))
        await harness.pass_time(self.lease_seconds)
        asked_at = now + self.lease_seconds
        await store.mail.expect(expecting("young", "took", asked_at=asked_at, answered=True))

        gone = await store.mail.forget(older_than_seconds=self.lease_seconds * 0.5)

        assert gone == 2 + 3
        kept = await store.mail.read(["waits", "took", "over", "early"])
        assert [posted.address for posted in kept] == ["waits"]
        left = [len(await store.mail.expected(name)) for name in ("waits", "took", "over")]
        assert left == [1, 1, 0]
        assert await store.mail.forget(older_than_seconds=self.lease_seconds * 0.5) == 0

    async def test_m08_unheard(self, store: Store, harness: StoreHarness) -> None:
        """Runs whose post has lain for so long are named; those that took it, or wait, are not."""
        for run_id in ("t", "u", "took", "waits"):
            await store.mail.expect(expecting(f"at {run_id}", run_id))
        for run_id in ("u", "t", "took"):
            await store.mail.post(f"at {run_id}", b"1")
            await harness.pass_time(0.01)
        await store.mail.expect(expecting("at t", "took"))
        await store.mail.answered("took", ["at took", "at t"])
        await store.mail.post("early", b"1")
        half = self.lease_seconds * 0.5

        assert await store.mail.unheard(older_than_seconds=half) == []
        await harness.pass_time(self.lease_seconds)
        await store.mail.post("at waits", b"1")
        assert sorted(await store.mail.unheard(older_than_seconds=half)) == ["t", "u"]
        assert len(await store.mail.unheard(older_than_seconds=half, limit=1)) == 1

    async def test_m09_outage(self, store: Store, harness: StoreHarness) -> None:
        """An engine that is out says so; afterwards the same post goes through."""
        async with harness.outage():
            for call in (store.mail.expect(expecting()), store.mail.post("a", b"1")):
                with pytest.raises(StoreUnavailable):
                    await call

        assert (await store.mail.post("a", b"1")).is_first is True

    async def test_m10_cancelled_posts(self, store: Store) -> None:
        """A cancelled post is there as a whole or not at all, and the next one works."""
        for turns in range(20):
            post = asyncio.create_task(store.mail.post(f"a{turns}", b"x" * 1000))
            for _ in range(turns % 8):
                await asyncio.sleep(0)
            post.cancel()
            await asyncio.wait([post])
        await store.mail.post("last", b"x" * 1000)

        found = await store.mail.read([*(f"a{turns}" for turns in range(20)), "last"])
        assert {posted.body for posted in found} == {b"x" * 1000}
        assert found[-1].address == "last"
