"""Gossip among workers in the SQLite store."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

from worker.sqlitefile import SqliteFile
from worker.store.peers import WORKERS_MAX, Heard, checked
from worker.store.rows import readable
from worker.store.sqlite_rows import ours

SAY = """
insert into peer (owner, words, until) values (?, ?, ?)
on conflict (owner) do update set words = excluded.words, until = excluded.until
"""
FORGET = "delete from peer where until <= ?"
HEAR = "select words from peer where until > ? order by until desc limit ?"


class PeerTable:
    """See the port. Nothing is synced: what is lost is said again soon."""

    def __init__(self, file: SqliteFile, *, clock: Callable[[], float]) -> None:
        self._file = file
        self._clock = clock

    async def gossip(self, owner: str, words: str | None, *, ttl_seconds: float) -> Heard:
        """See the port."""
        now = self._clock()
        if checked(words) is not None:
            row = (readable(owner), readable(words or ""), now + ttl_seconds, now)
            await ours(self._file.write(self._say, row, synced=False))
        rows = await ours(self._file.read(lambda c: c.execute(HEAR, (now, WORKERS_MAX)).fetchall()))
        return Heard(len(rows), tuple(words for (words,) in rows if words))

    @staticmethod
    def _say(connection: sqlite3.Connection, rows: list[Any]) -> list[Any]:
        for *row, now in rows:
            connection.execute(FORGET, (now,))
            connection.execute(SAY, row)
        return [None] * len(rows)
