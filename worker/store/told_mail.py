"""A mailbox that tells telemetry about every call that changes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from worker.store.mailbox import Expectation, Mailbox, Posted, Receipt
from worker.telemetry.signals import StoreCall


class TelledMailbox:
    """Wrap any mailbox: `expect`, `post` and `hear` are operations; looking is not told."""

    def __init__(
        self, mail: Mailbox, watch: Callable[[str], AbstractContextManager[StoreCall]]
    ) -> None:
        self.inner = mail
        self._watch = watch

    def __repr__(self) -> str:
        return f"TelledMailbox({self.inner!r})"

    @property
    def unexpected_max(self) -> int:
        """See the contract: how many posts nobody need expect."""
        return self.inner.unexpected_max

    @unexpected_max.setter
    def unexpected_max(self, count: int) -> None:
        self.inner.unexpected_max = count

    @property
    def unexpected_bytes_max(self) -> int:
        """See the contract: how large they may be together."""
        return self.inner.unexpected_bytes_max

    @unexpected_bytes_max.setter
    def unexpected_bytes_max(self, size: int) -> None:
        self.inner.unexpected_bytes_max = size

    async def expect(self, expectation: Expectation) -> None:
        """See the contract; told as `expect`."""
        with self._watch("expect"):
            await self.inner.expect(expectation)

    async def post(self, address: str, body: bytes) -> Receipt:
        """See the contract; told as `post`."""
        with self._watch("post"):
            return await self.inner.post(address, body)

    async def answered(self, run_id: str, addresses: Sequence[str]) -> None:
        """See the contract; told as `hear`."""
        with self._watch("hear"):
            await self.inner.answered(run_id, addresses)

    async def read(self, addresses: Sequence[str]) -> Sequence[Posted]:
        """See the contract; not told."""
        return await self.inner.read(addresses)

    async def expected(self, run_id: str) -> Sequence[Expectation]:
        """See the contract; not told."""
        return await self.inner.expected(run_id)

    async def at(self, address: str) -> Sequence[Expectation]:
        """See the contract; not told."""
        return await self.inner.at(address)

    async def pending(self, *, kind: str, limit: int = 100) -> Sequence[Expectation]:
        """See the contract; not told."""
        return await self.inner.pending(kind=kind, limit=limit)

    async def unheard(self, *, older_than_seconds: float, limit: int = 100) -> Sequence[str]:
        """See the contract; not told."""
        return await self.inner.unheard(older_than_seconds=older_than_seconds, limit=limit)

    async def forget(self, *, older_than_seconds: float) -> int:
        """See the contract; not told."""
        return await self.inner.forget(older_than_seconds=older_than_seconds)
