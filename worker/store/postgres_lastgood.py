"""The last good values in the PostgreSQL store."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from worker.postgres.link import PostgresLink
from worker.store import postgres_statements as sql
from worker.store.lastgood import LAST_GOOD_MAX, Row
from worker.store.port import Remembered


class LastGoodTable:
    """The values in their table, found by a digest of the key."""

    def __init__(self, link: PostgresLink, *, values_max: int = LAST_GOOD_MAX) -> None:
        self.values_max = values_max
        self._link = link

    async def read(self, key: str) -> Remembered | None:
        """The value of a key, however old."""
        rows = await self._link.rows(sql.RECALL, {"key": _digest(key)})
        return Remembered(rows[0][0].decode(), rows[0][1]) if rows else None

    async def write(self, rows: Sequence[Row]) -> None:
        """Store some values in one go."""
        # In one order, so that two workers never wait for each other in a circle.
        keyed = sorted((_digest(key), value.encode(), at) for key, value, at in rows)
        keys, contents, ats = zip(*keyed, strict=True)
        values = {"keys": list(keys), "contents": list(contents), "ats": list(ats)}
        await self._link.count(sql.REMEMBER, values)
        await self._link.count(sql.FORGET_OLDEST, {"most": self.values_max})


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()
