"""The last good values in the PostgreSQL store."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from worker.postgres.link import PostgresLink
from worker.store import postgres_statements as sql
from worker.store.port import Remembered
from worker.store.rows import readable
from worker.store.unwritten import LAST_GOOD_MAX, Row, Unwritten


class LastGoodTable:
    """Beyond `values_max` the values that were stored longest ago are forgotten."""

    def __init__(self, link: PostgresLink, *, values_max: int = LAST_GOOD_MAX) -> None:
        self.values_max = values_max
        self._link = link
        self._unwritten = Unwritten(self._write)

    def __repr__(self) -> str:
        return f"LastGoodTable({len(self._unwritten)} not in the table yet)"

    def remember(self, key: str, value: str, at: float) -> None:
        """Keep a value, and write it soon."""
        self._unwritten.remember(key, value, at)

    async def recall(self, key: str) -> Remembered | None:
        """The value, however old."""
        key = readable(key)
        if (found := self._unwritten.recall(key)) is not None:
            return found
        rows = await self._link.rows(sql.RECALL, {"key": _digest(key)})
        return Remembered(rows[0][0].decode(), rows[0][1]) if rows else None

    async def flush(self) -> None:
        """Write what was remembered, and wait until it is written or has failed."""
        await self._unwritten.flush()

    async def _write(self, rows: Sequence[Row]) -> None:
        # In one order, so that two workers never wait for each other in a circle.
        keyed = sorted((_digest(key), value.encode(), at) for key, value, at in rows)
        keys, contents, ats = zip(*keyed, strict=True)
        values = {"keys": list(keys), "contents": list(contents), "ats": list(ats)}
        await self._link.count(sql.REMEMBER, values)
        await self._link.count(sql.FORGET_OLDEST, {"most": self.values_max})


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()
