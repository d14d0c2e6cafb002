"""The mailbox of the Redis store, on the same server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from worker.core.errors import MailboxFull
from worker.redislink import RedisLink
from worker.redistalk import Script
from worker.store import redis_letters as lua
from worker.store.mailbox import (
    UNEXPECTED_BYTES_MAX,
    UNEXPECTED_MAX,
    Expectation,
    Posted,
    Receipt,
    body_digest,
)
from worker.store.redis_lua import PAGE
from worker.store.rows import readable


class RedisMailbox:
    """See the contract for what each method promises. Uses `link` and leaves it open."""

    def __init__(self, link: RedisLink, keys: Sequence[str]) -> None:
        self.unexpected_max = UNEXPECTED_MAX
        self.unexpected_bytes_max = UNEXPECTED_BYTES_MAX
        self._link = link
        self._keys = keys

    def __repr__(self) -> str:
        return f"RedisMailbox({self._link!r})"

    async def expect(self, expectation: Expectation) -> None:
        """See the contract: note that a call waits."""
        e = expectation
        words = (e.address, e.run_id, e.call_id, e.kind, e.tool, e.arguments, e.digest)
        times = (repr(float(e.asked_at)), repr(float(e.expires_at)))
        await self._run(lua.EXPECT, *map(readable, words), *times, int(e.answered))

    async def post(self, address: str, body: bytes) -> Receipt:
        """See the contract: leave something; the first one stays.

        When the answer got lost it may lie there already: posted again, it is told as a repeat.
        """
        bounds = (self.unexpected_max, self.unexpected_bytes_max)
        wish = (readable(address), bytes(body), body_digest(body), *bounds)
        is_first, waiting, *there = await self._run(lua.POST, *wish)
        if is_first < 0:
            raise MailboxFull(f"{waiting} posts wait that nobody expects")
        runs = tuple(run_id.decode() for run_id in waiting)
        return Receipt(_posted(readable(address), there), bool(is_first), runs)

    async def read(self, addresses: Sequence[str]) -> Sequence[Posted]:
        """See the contract: what has been posted."""
        if not addresses:
            return []
        wanted = list(map(readable, addresses))
        found = await self._run(lua.READ, *wanted)
        return [_posted(name, row) for name, row in zip(wanted, found, strict=True) if row[2]]

    async def answered(self, run_id: str, addresses: Sequence[str]) -> None:
        """See the contract: a run waits no longer."""
        if addresses:
            await self._run(lua.ANSWERED, readable(run_id), *map(readable, addresses))

    async def expected(self, run_id: str) -> Sequence[Expectation]:
        """See the contract: of a run."""
        return _expectations(await self._run(lua.EXPECTED, readable(run_id)))

    async def at(self, address: str) -> Sequence[Expectation]:
        """See the contract: of an address."""
        return _expectations(await self._run(lua.AT, readable(address)))

    async def pending(self, *, kind: str, limit: int = 100) -> Sequence[Expectation]:
        """See the contract: not answered yet."""
        return _expectations(await self._run(lua.PENDING, kind, limit)) if limit > 0 else []

    async def unheard(self, *, older_than_seconds: float, limit: int = 100) -> Sequence[str]:
        """See the contract: runs that nobody has told."""
        found = await self._run(lua.UNHEARD, older_than_seconds, limit)
        return [run_id.decode() for run_id in found]

    async def forget(self, *, older_than_seconds: float) -> int:
        """See the contract: what is over, some hundred in each script."""
        total = 0
        for script in (lua.FORGET_EXPECTATIONS, lua.FORGET_POSTS):
            kept, looked = 0, PAGE
            while looked == PAGE:
                looked, gone = await self._run(script, older_than_seconds, kept)
                total, kept = total + gone, kept + looked - gone
        return total

    async def _run(self, script: Script, *values: Any) -> Any:
        return await self._link.run(script, self._keys, *values)


def _posted(address: str, row: Sequence[bytes]) -> Posted:
    body, digest, posted_at = row
    return Posted(address, body, digest.decode(), float(posted_at))


def _expectations(rows: Sequence[Sequence[bytes]]) -> list[Expectation]:
    made = []
    for *words, asked_at, expires_at, answered in rows:
        address, run_id, call_id, kind, tool, arguments, digest = (word.decode() for word in words)
        times = (float(asked_at), float(expires_at))
        named = (address, run_id, call_id, kind, tool, arguments, digest)
        made.append(Expectation(*named, *times, answered == b"1"))
    return made
