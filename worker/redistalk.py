"""Some calls over one connection: written at once, their answers read in order.

The driver's own pipeline packs each word in Python and sets a timer for each answer, which costs more
than everything else it does. Here the parser's own packer does the one, and one timer the other.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import hiredis
import redis.asyncio

from worker.core.errors import WorkerError

Words = Sequence[Any]


@dataclass(frozen=True, slots=True)
class Script:
    """A script of the server's; `sha` is the name by which the server knows it."""

    text: str
    sha: str

    @classmethod
    def of(cls, *parts: str, frees: bool = False) -> Script:
        """Put a script together. One that `frees` also runs when the server's memory is full."""
        head = "#!lua flags=allow-oom\n" if frees else "#!lua\n"
        text = head + "\n".join(parts)
        return cls(text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


class Call(NamedTuple):
    """A script to be run. `full` is raised when the server has no memory left for it."""

    script: Script
    keys: Sequence[str]
    values: Words
    full: type[WorkerError] | None = None

    def by_name(self) -> Words:
        """For a server that knows the script."""
        return ("EVALSHA", self.script.sha, len(self.keys), *self.keys, *self.values)

    def in_full(self) -> Words:
        """For one that does not; it does afterwards."""
        return ("EVAL", self.script.text, len(self.keys), *self.keys, *self.values)


async def exchange(
    pool: redis.asyncio.ConnectionPool, calls: Sequence[Words], *, silent_seconds: float
) -> tuple[list[Any], list[int]]:
    """Make some calls; returns their answers, and the places of those that are a ResponseError.

    Raises TimeoutError when the server is silent for so long, or no connection was free; what else
    the driver raises, when the connection cannot be made or breaks. Cancelled: the calls were made,
    or some, or none.
    """
    answers: list[Any] = []
    failed: list[int] = []
    async with asyncio.timeout(silent_seconds) as limit:
        connection: Any = await cast(Any, pool).get_connection()  # untyped there
        try:
            await connection.send_packed_command(packed(calls), check_health=False)
            for _ in calls:
                try:
                    answers.append(await connection.read_response())
                except redis.exceptions.ResponseError as error:
                    failed.append(len(answers))
                    answers.append(error)
                _extend(limit, silent_seconds)
        except BaseException:
            # Answers that nobody has read must not be taken for those of the next calls.
            await connection.disconnect(nowait=True)
            raise
        finally:
            await pool.release(connection)
    return answers, failed


def packed(calls: Sequence[Words]) -> list[bytes]:
    """Calls as the server reads them."""
    return [hiredis.pack_command(tuple(words)) for words in calls]


def _extend(limit: asyncio.Timeout, seconds: float) -> None:
    # Seldom: a timer that is moved is a new one.
    now, when = asyncio.get_running_loop().time(), limit.when()
    if when is not None and when - now < seconds / 2:
        limit.reschedule(now + seconds)
