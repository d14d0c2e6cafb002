"""The mailbox of the PostgreSQL store, in the same schema.

What concerns one address is done by one after the other: each takes a lock on the address for the
length of its transaction, so that of a post and of who begins to wait for it one knows of the other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from worker.core.errors import MailboxFull
from worker.postgres.link import PostgresLink, Statements
from worker.postgres.text import storable
from worker.store.mailbox import (
    KEPT_BYTES_MAX,
    UNEXPECTED_BYTES_MAX,
    UNEXPECTED_MAX,
    Expectation,
    Posted,
    Receipt,
    body_digest,
)
from worker.store.postgres_statements import CLOCK

FORGET_BATCH = 200  # rows in one transaction, so that it stays short

# Two addresses of one hash wait for each other now and then, and nothing else happens.
_LOCK = "pg_advisory_xact_lock(hashtextextended('@post ' || address, 0))"
LOCK = f"select {_LOCK} from unnest(%(addresses)s::text[]) as address"
LOCK_UNEXPECTED = "select pg_advisory_xact_lock(hashtextextended('@unexpected', 0))"

_FIELDS = "address, run_id, call_id, kind, tool, arguments, digest, asked_at, expires_at, answered"
EXPECT = f"""
insert into @expectation (key, {_FIELDS})
select %(key)s, address, %(run_id)s, %(call_id)s, %(kind)s, %(tool)s, %(arguments)s, %(digest)s,
  %(asked_at)s::float8, %(expires_at)s::float8, %(answered)s::boolean
from (select %(address)s::text as address) as given, lateral (select {_LOCK}) as locked
on conflict (key) do update set kind = excluded.kind, tool = excluded.tool,
  arguments = excluded.arguments, digest = excluded.digest, asked_at = excluded.asked_at,
  expires_at = excluded.expires_at, answered = excluded.answered
"""
POST = f"""
insert into @post (address, body, digest, posted_at)
values (%(address)s, %(body)b, %(digest)s, {CLOCK}) returning posted_at
"""
READ = """
select address, body, digest, posted_at from @post
join unnest(%(addresses)s::text[]) with ordinality as wanted (address, place) using (address)
order by place
"""
WAITING = """
select run_id, answered from @expectation where address = %(address)s group by run_id, answered
order by min(number)
"""
UNEXPECTED = """
select count(*), coalesce(sum(length(body)), 0) from @post as p where not heard
  and not exists (select from @expectation as e where e.address = p.address)
"""
ANSWERED = """
update @expectation set answered = true
where address = any(%(addresses)s::text[]) and run_id = %(run_id)s
"""
_NOBODY_WAITS = """not exists (
    select from @expectation as e where e.address = p.address and not answered)"""
HEARD = f"""
update @post as p set heard = true,
  body = case when length(body) > {KEPT_BYTES_MAX} then '' else body end
where address = any(%(addresses)s::text[]) and {_NOBODY_WAITS}
"""
EXPECTED = f"select {_FIELDS} from @expectation where run_id = %(run_id)s order by number"
AT = f"select {_FIELDS} from @expectation where address = %(address)s order by number"
PENDING = f"""
select {_FIELDS} from @expectation where kind = %(kind)s and not answered
order by number limit %(limit)s
"""
UNHEARD = f"""
select run_id from @post as p join @expectation as e using (address)
where not heard and posted_at <= {CLOCK} - %(seconds)s::float8 and not answered
group by run_id order by min(posted_at) limit %(limit)s
"""
FORGET_EXPECTATIONS = f"""
delete from @expectation where number in (
  select number from @expectation as e
  where asked_at <= {CLOCK} - %(seconds)s::float8 and (answered or not exists (
    select from @run as r where r.id = e.run_id and r.state <> 'finished'))
  limit %(limit)s)
"""
FORGET_POSTS = f"""
delete from @post where address in (
  select address from @post as p
  where posted_at <= {CLOCK} - %(seconds)s::float8 and {_NOBODY_WAITS} limit %(limit)s)
"""


class PostgresMailbox:
    """See the contract for what each method promises. Uses `link` and leaves it open."""

    def __init__(self, link: PostgresLink) -> None:
        self.unexpected_max = UNEXPECTED_MAX
        self.unexpected_bytes_max = UNEXPECTED_BYTES_MAX
        self._link = link

    def __repr__(self) -> str:
        return f"PostgresMailbox({self._link!r})"

    async def expect(self, expectation: Expectation) -> None:
        """See the contract: note that a call waits."""
        await self._link.count(EXPECT, _row_of(expectation))

    async def post(self, address: str, body: bytes) -> Receipt:
        """See the contract: leave something; the first one stays."""
        posted = Posted(storable(address), bytes(body), body_digest(body), 0.0)
        met = await self._link.transact(lambda tx: self._post(tx, posted))
        if isinstance(met, MailboxFull):
            raise met
        return met

    async def read(self, addresses: Sequence[str]) -> Sequence[Posted]:
        """See the contract: what has been posted."""
        if not addresses:
            return []
        rows = await self._link.rows(READ, {"addresses": list(map(storable, addresses))})
        return [Posted(*row) for row in rows]

    async def answered(self, run_id: str, addresses: Sequence[str]) -> None:
        """See the contract: a run waits no longer."""
        if not addresses:
            return
        # Locked in one order, so that nobody waits in a circle.
        values = {"run_id": storable(run_id), "addresses": sorted({*map(storable, addresses)})}

        async def note(tx: Statements) -> None:
            for statement in (LOCK, ANSWERED, HEARD):
                await tx.count(statement, values)

        await self._link.transact(note)

    async def expected(self, run_id: str) -> Sequence[Expectation]:
        """See the contract: of a run."""
        return await self._expectations(EXPECTED, {"run_id": storable(run_id)})

    async def at(self, address: str) -> Sequence[Expectation]:
        """See the contract: of an address."""
        return await self._expectations(AT, {"address": storable(address)})

    async def pending(self, *, kind: str, limit: int = 100) -> Sequence[Expectation]:
        """See the contract: not answered yet."""
        return await self._expectations(PENDING, {"kind": kind, "limit": limit})

    async def unheard(self, *, older_than_seconds: float, limit: int = 100) -> Sequence[str]:
        """See the contract: runs that nobody has told."""
        rows = await self._link.rows(UNHEARD, {"seconds": older_than_seconds, "limit": limit})
        return [str(run_id) for (run_id,) in rows]

    async def forget(self, *, older_than_seconds: float) -> int:
        """See the contract: what is over, some hundred in each transaction."""
        values = {"seconds": older_than_seconds, "limit": FORGET_BATCH}
        total = 0
        for statement in (FORGET_EXPECTATIONS, FORGET_POSTS):
            gone = FORGET_BATCH
            while gone == FORGET_BATCH:
                gone = await self._link.count(statement, values)
                total += gone
        return total

    async def _expectations(self, statement: str, values: Any) -> list[Expectation]:
        return [Expectation(*row) for row in await self._link.rows(statement, values)]

    async def _post(self, tx: Statements, posted: Posted) -> Receipt | MailboxFull:
        values: dict[str, Any] = {"address": posted.address, "addresses": [posted.address]}
        await tx.rows(LOCK, values)
        known = await tx.rows(WAITING, values)
        waiting = tuple(run_id for run_id, answered in known if not answered)
        if rows := await tx.rows(READ, values):
            return Receipt(Posted(*rows[0]), False, waiting)
        if not known:
            await tx.rows(LOCK_UNEXPECTED, {})
            [(count, size)] = await tx.rows(UNEXPECTED, {})
            is_too_large = size + len(posted.body) > self.unexpected_bytes_max
            if count >= self.unexpected_max or is_too_large:
                return MailboxFull(f"{count} posts wait that nobody expects")
        values |= {"body": posted.body, "digest": posted.digest}
        [(posted_at,)] = await tx.rows(POST, values)
        return Receipt(replace(posted, posted_at=posted_at), True, waiting)


def _row_of(expectation: Expectation) -> dict[str, Any]:
    e = expectation
    texts = {
        "address": e.address,
        "run_id": e.run_id,
        "call_id": e.call_id,
        "kind": e.kind,
        "tool": e.tool,
        "arguments": e.arguments,
        "digest": e.digest,
    }
    row = {name: storable(text) for name, text in texts.items()}
    names = "\0".join(row[name] for name in ("address", "run_id", "call_id"))
    return {
        **row,
        "key": hashlib.sha256(names.encode()).digest(),
        "asked_at": e.asked_at,
        "expires_at": e.expires_at,
        "answered": e.answered,
    }
