"""Gossip among workers in the PostgreSQL store."""

from __future__ import annotations

from worker.postgres.link import PostgresLink
from worker.store.peers import WORKERS_MAX, Heard, checked
from worker.store.postgres_statements import CLOCK
from worker.store.rows import readable

# Forgotten are only rows that nobody else is at: two that clean up must not wait for each other.
SAY = f"""
with gone as (
  delete from @peer where owner in (
    select owner from @peer where until <= {CLOCK} and owner <> %(owner)s for update skip locked))
insert into @peer (owner, words, until) values (%(owner)s, %(words)s, {CLOCK} + %(seconds)s)
on conflict (owner) do update set words = excluded.words, until = excluded.until
"""
HEAR = f"select words from @peer where until > {CLOCK} order by until desc limit %(limit)s"


class PeerTable:
    """See the port."""

    def __init__(self, link: PostgresLink) -> None:
        self._link = link

    async def gossip(self, owner: str, words: str | None, *, ttl_seconds: float) -> Heard:
        """See the port."""
        if checked(words) is not None:
            row = {"owner": _plain(owner), "words": _plain(words or ""), "seconds": ttl_seconds}
            await self._link.count(SAY, row)
        rows = await self._link.rows(HEAR, {"limit": WORKERS_MAX})
        return Heard(len(rows), tuple(words for (words,) in rows if words))


def _plain(text: str) -> str:
    return readable(text).replace("\0", "")  # which PostgreSQL has no text for
