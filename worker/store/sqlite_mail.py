"""The mailbox of the SQLite store, in the same file."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

from worker.core.errors import MailboxFull
from worker.sqlitefile import SqliteFile
from worker.store.mailbox import (
    KEPT_BYTES_MAX,
    UNEXPECTED_BYTES_MAX,
    UNEXPECTED_MAX,
    Expectation,
    Posted,
    Receipt,
    body_digest,
)
from worker.store.rows import readable
from worker.store.sqlite_rows import ours

FORGET_BATCH = 200  # rows in one transaction, so that nobody waits long for the lock

_FIELDS = "address, run_id, call_id, kind, tool, arguments, digest, asked_at, expires_at, answered"
EXPECT = f"""
insert into expectation ({_FIELDS}) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
on conflict (address, run_id, call_id) do update set kind = excluded.kind, tool = excluded.tool,
  arguments = excluded.arguments, digest = excluded.digest, asked_at = excluded.asked_at,
  expires_at = excluded.expires_at, answered = excluded.answered
"""
POST = "insert into post (address, body, digest, posted_at) values (?, ?, ?, ?)"
READ = "select address, body, digest, posted_at from post where address = ?"
WAITING = """
select run_id, answered from expectation where address = ? group by run_id, answered
order by min(number)
"""
UNEXPECTED = """
select count(*), coalesce(sum(length(body)), 0) from post where heard = 0
  and not exists (select 1 from expectation where expectation.address = post.address)
"""
ANSWERED = "update expectation set answered = 1 where address = ? and run_id = ?"
_NOBODY_WAITS = """not exists (
    select 1 from expectation where expectation.address = post.address and answered = 0)"""
HEARD = f"""
update post set heard = 1, body = case when length(body) > {KEPT_BYTES_MAX} then x'' else body end
where address = ? and {_NOBODY_WAITS}
"""
EXPECTED = f"select {_FIELDS} from expectation where run_id = ? order by number"
AT = f"select {_FIELDS} from expectation where address = ? order by number"
PENDING = f"""
select {_FIELDS} from expectation where kind = ? and answered = 0 order by number limit ?
"""
UNHEARD = """
select run_id from post join expectation using (address)
where heard = 0 and posted_at <= ? and answered = 0
group by run_id order by min(posted_at) limit ?
"""
FORGET_EXPECTATIONS = """
delete from expectation where number in (
  select number from expectation where asked_at <= :before and (answered = 1 or not exists (
    select 1 from run where run.id = expectation.run_id and run.state != 'finished'))
  limit :limit)
"""
FORGET_POSTS = f"""
delete from post where address in (
  select address from post where posted_at <= :before and {_NOBODY_WAITS} limit :limit)
"""


class SqliteMailbox:
    """See the contract for what each method promises. Uses `file` and leaves it open."""

    def __init__(self, file: SqliteFile, *, clock: Callable[[], float]) -> None:
        self.unexpected_max = UNEXPECTED_MAX
        self.unexpected_bytes_max = UNEXPECTED_BYTES_MAX
        self._file = file
        self._clock = clock

    def __repr__(self) -> str:
        return f"SqliteMailbox({self._file!r})"

    async def expect(self, expectation: Expectation) -> None:
        """See the contract: note that a call waits."""
        e = expectation
        row = (e.address, e.run_id, e.call_id, e.kind, e.tool, e.arguments, e.digest)
        wish = (*map(readable, row), e.asked_at, e.expires_at, e.answered)
        await ours(self._file.write(self._expect, wish))

    async def post(self, address: str, body: bytes) -> Receipt:
        """See the contract: leave something; the first one stays."""
        wish = (readable(address), bytes(body), body_digest(body))
        receipt: Receipt = await ours(self._file.write(self._post, wish))
        return receipt

    async def read(self, addresses: Sequence[str]) -> Sequence[Posted]:
        """See the contract: what has been posted."""
        wanted = list(map(readable, addresses))

        def look(connection: sqlite3.Connection) -> list[Posted]:
            rows = [connection.execute(READ, (address,)).fetchone() for address in wanted]
            return [Posted(*row) for row in rows if row is not None]

        return await ours(self._file.read(look))

    async def answered(self, run_id: str, addresses: Sequence[str]) -> None:
        """See the contract: a run waits no longer."""
        wish = (readable(run_id), list(map(readable, addresses)))
        await ours(self._file.write(self._answered, wish))

    async def expected(self, run_id: str) -> Sequence[Expectation]:
        """See the contract: of a run."""
        return await self._expectations(EXPECTED, (readable(run_id),))

    async def at(self, address: str) -> Sequence[Expectation]:
        """See the contract: of an address."""
        return await self._expectations(AT, (readable(address),))

    async def pending(self, *, kind: str, limit: int = 100) -> Sequence[Expectation]:
        """See the contract: not answered yet."""
        return await self._expectations(PENDING, (kind, limit))

    async def unheard(self, *, older_than_seconds: float, limit: int = 100) -> Sequence[str]:
        """See the contract: runs that nobody has told."""
        values = (self._clock() - older_than_seconds, limit)
        read = self._file.read(lambda c: c.execute(UNHEARD, values).fetchall())
        return [str(run_id) for (run_id,) in await ours(read)]

    async def forget(self, *, older_than_seconds: float) -> int:
        """See the contract: what is over, some hundred in each transaction."""
        values = {"before": self._clock() - older_than_seconds, "limit": FORGET_BATCH}
        total = 0
        for statement in (FORGET_EXPECTATIONS, FORGET_POSTS):
            gone = FORGET_BATCH
            while gone == FORGET_BATCH:
                gone = await ours(self._file.write(self._forget, (statement, values)))
                total += gone
        return total

    async def _expectations(self, statement: str, values: Any) -> list[Expectation]:
        read = self._file.read(lambda c: c.execute(statement, values).fetchall())
        return [Expectation(*(*row[:-1], bool(row[-1]))) for row in await ours(read)]

    # --- in the writer thread --------------------------------------------------------------------

    def _expect(self, connection: sqlite3.Connection, rows: list[Any]) -> list[Any]:
        connection.executemany(EXPECT, rows)
        return [None] * len(rows)

    def _post(self, connection: sqlite3.Connection, wishes: list[Any]) -> list[Any]:
        now = self._clock()
        return [self._post_one(connection, wish, now) for wish in wishes]

    def _post_one(
        self, connection: sqlite3.Connection, wish: tuple[str, bytes, str], now: float
    ) -> Receipt | MailboxFull:
        address, body, digest = wish
        known = connection.execute(WAITING, (address,)).fetchall()
        waiting = tuple(run_id for run_id, answered in known if not answered)
        row = connection.execute(READ, (address,)).fetchone()
        if row is not None:
            return Receipt(Posted(*row), False, waiting)
        if not known:
            count, size = connection.execute(UNEXPECTED).fetchone()
            if count >= self.unexpected_max or size + len(body) > self.unexpected_bytes_max:
                return MailboxFull(f"{count} posts wait that nobody expects")
        connection.execute(POST, (address, body, digest, now))
        return Receipt(Posted(address, body, digest, now), True, waiting)

    def _answered(self, connection: sqlite3.Connection, wishes: list[Any]) -> list[Any]:
        for run_id, addresses in wishes:
            for address in addresses:
                connection.execute(ANSWERED, (address, run_id))
                connection.execute(HEARD, (address,))
        return [None] * len(wishes)

    def _forget(self, connection: sqlite3.Connection, wishes: list[Any]) -> list[Any]:
        return [connection.execute(statement, values).rowcount for statement, values in wishes]
