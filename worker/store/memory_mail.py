"""The mailbox of the memory store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from worker.core.errors import MailboxFull
from worker.store.mailbox import (
    KEPT_BYTES_MAX,
    UNEXPECTED_BYTES_MAX,
    UNEXPECTED_MAX,
    Expectation,
    Posted,
    Receipt,
    body_digest,
)


@dataclass(slots=True)
class Mail:
    """What the mailbox holds; it belongs to the engine and survives every store."""

    expectations: dict[tuple[str, str, str], Expectation] = field(default_factory=dict)
    posts: dict[str, Posted] = field(default_factory=dict)


class MemoryMailbox:
    """See the contract for what each method promises.

    `now` tells the time, or raises during an outage; `is_finished` asks about a run.
    """

    def __init__(
        self, mail: Mail, *, now: Callable[[], float], is_finished: Callable[[str], bool]
    ) -> None:
        self.unexpected_max = UNEXPECTED_MAX
        self.unexpected_bytes_max = UNEXPECTED_BYTES_MAX
        self._mail = mail
        self._now = now
        self._is_finished = is_finished

    def __repr__(self) -> str:
        return f"MemoryMailbox({len(self._mail.posts)} posts)"

    async def expect(self, expectation: Expectation) -> None:
        """See the contract: note that a call waits."""
        self._now()
        key = (expectation.address, expectation.run_id, expectation.call_id)
        self._mail.expectations[key] = expectation

    async def post(self, address: str, body: bytes) -> Receipt:
        """See the contract: leave something; the first one stays."""
        now = self._now()
        known = [each for each in self._mail.expectations.values() if each.address == address]
        waiting = tuple(dict.fromkeys(each.run_id for each in known if not each.answered))
        first = self._mail.posts.get(address)
        if first is not None:
            return Receipt(first, False, waiting)
        if not known:
            self._check_room(len(body))
        posted = self._mail.posts[address] = Posted(address, bytes(body), body_digest(body), now)
        return Receipt(posted, True, waiting)

    def _check_room(self, size: int) -> None:
        expected = {each.address for each in self._mail.expectations.values()}
        loose = [len(p.body) for p in self._mail.posts.values() if p.address not in expected]
        if len(loose) >= self.unexpected_max or sum(loose) + size > self.unexpected_bytes_max:
            raise MailboxFull(f"{len(loose)} posts wait that nobody expects")

    async def read(self, addresses: Sequence[str]) -> Sequence[Posted]:
        """See the contract: what has been posted."""
        self._now()
        found = (self._mail.posts.get(address) for address in addresses)
        return [posted for posted in found if posted is not None]

    async def answered(self, run_id: str, addresses: Sequence[str]) -> None:
        """See the contract: a run waits no longer."""
        self._now()
        kept = self._mail.expectations
        for key, each in kept.items():
            if each.run_id == run_id and each.address in addresses:
                kept[key] = replace(each, answered=True)
        for address in addresses:
            posted = self._mail.posts.get(address)
            is_large = posted is not None and len(posted.body) > KEPT_BYTES_MAX
            if posted is not None and is_large and not self._waits(address):
                self._mail.posts[address] = replace(posted, body=b"")

    async def expected(self, run_id: str) -> Sequence[Expectation]:
        """See the contract: of a run."""
        self._now()
        return [each for each in self._mail.expectations.values() if each.run_id == run_id]

    async def at(self, address: str) -> Sequence[Expectation]:
        """See the contract: of an address."""
        self._now()
        return [each for each in self._mail.expectations.values() if each.address == address]

    async def pending(self, *, kind: str, limit: int = 100) -> Sequence[Expectation]:
        """See the contract: not answered yet."""
        self._now()
        kept = self._mail.expectations.values()
        return [each for each in kept if each.kind == kind and not each.answered][:limit]

    async def unheard(self, *, older_than_seconds: float, limit: int = 100) -> Sequence[str]:
        """See the contract: runs that nobody has told."""
        before = self._now() - older_than_seconds
        old = {p.address for p in self._mail.posts.values() if p.posted_at <= before}
        kept = self._mail.expectations.values()
        runs = [each.run_id for each in kept if each.address in old and not each.answered]
        return list(dict.fromkeys(runs))[:limit]

    async def forget(self, *, older_than_seconds: float) -> int:
        """See the contract: what is over."""
        before = self._now() - older_than_seconds
        posts, expectations = self._mail.posts, self._mail.expectations
        over = [
            key
            for key, each in expectations.items()
            if each.asked_at <= before and (each.answered or self._is_finished(each.run_id))
        ]
        for key in over:
            del expectations[key]
        old = [p.address for p in posts.values() if p.posted_at <= before]
        gone = [address for address in old if not self._waits(address)]
        for address in gone:
            del posts[address]
        return len(over) + len(gone)

    def _waits(self, address: str) -> bool:
        kept = self._mail.expectations.values()
        return any(each.address == address and not each.answered for each in kept)
