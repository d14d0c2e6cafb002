"""The contract of the mailbox: where news from outside waits for the calls of runs.

A call that waits for a person or for a job *expects* something at an address; whoever has it
*posts* it there. Either may come first, and neither needs a worker. Each numbered sentence is a
test of `worker/testing/store_mail.py`, run against every engine.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

# A body is kept for the address to be known by after its run has taken it, if it is small.
KEPT_BYTES_MAX = 8_192
# What nobody expects is kept for whoever may expect it a moment later: so much, and no more.
UNEXPECTED_MAX = 1_000
UNEXPECTED_BYTES_MAX = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Expectation:
    """What one call of a run waits for. `arguments` are JSON text, `digest` theirs.

    `answered`: the run has it, or waits no longer.
    """

    address: str
    run_id: str
    call_id: str
    kind: str  # approval | job
    tool: str
    arguments: str
    digest: str
    asked_at: float
    expires_at: float
    answered: bool = False


@dataclass(frozen=True, slots=True)
class Posted:
    """What was posted at an address. A large body is empty once its runs have taken it."""

    address: str
    body: bytes
    digest: str  # of the body as it was posted, so that a repeat can be told from another
    posted_at: float


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a post met: the first one of its address, and the runs that still wait for it."""

    posted: Posted
    is_first: bool
    waiting: tuple[str, ...]


def approval_address(key: str) -> str:
    """Where the decision about a call is posted; `key` is the call's idempotency key."""
    return f"approval:{key}"


def job_address(handle: str) -> str:
    """Where the result of a job is posted."""
    return f"job:{handle}"


def body_digest(body: bytes) -> str:
    """Digest a body."""
    return hashlib.sha256(body).hexdigest()


class Mailbox(Protocol):
    """Expectations and posts.

    M1 what is posted is read, byte for byte, whether anybody expects it yet or not, and is durable
    on return (kill -9). M2 the first post of an address stays: a later one is told of it and
    writes nothing. M3 `expect` is durable and may be repeated: the same run and call expect once,
    in the newest words; several runs may expect the same address. M4 `expected` tells everything
    that a run has expected, answered or not, in the order of asking; `at` the same of an address;
    `pending` what nobody has answered yet, the oldest first. M5 posts that nobody expects are
    bounded in number and bytes: beyond it `post` raises `MailboxFull` and writes nothing; what is
    expected is never refused. M6 what a run has answered is pending no longer; a body of more than
    `KEPT_BYTES_MAX` goes with the last run that expects it, and the address still knows its first
    post. M7 `forget` forgets
    posts and expectations older than asked, but for what an unfinished run still waits for. M8
    `unheard` names the runs that wait for what has been posted for so long. M9 an outage raises
    `StoreUnavailable`. M10 a cancelled post is wholly there or not at all.
    """

    unexpected_max: int
    unexpected_bytes_max: int

    async def expect(self, expectation: Expectation) -> None:
        """Note that a call waits. Raises StoreUnavailable."""
        ...

    async def post(self, address: str, body: bytes) -> Receipt:
        """Leave something at an address. Raises MailboxFull, StoreUnavailable."""
        ...

    async def read(self, addresses: Sequence[str]) -> Sequence[Posted]:
        """What has been posted at these addresses."""
        ...

    async def answered(self, run_id: str, addresses: Sequence[str]) -> None:
        """Note that a run waits no longer for what it expected at these addresses."""
        ...

    async def expected(self, run_id: str) -> Sequence[Expectation]:
        """Everything that a run has expected and that is not forgotten."""
        ...

    async def at(self, address: str) -> Sequence[Expectation]:
        """Everything that has been expected at an address."""
        ...

    async def pending(self, *, kind: str, limit: int = 100) -> Sequence[Expectation]:
        """What is expected and not answered, of all runs."""
        ...

    async def unheard(self, *, older_than_seconds: float, limit: int = 100) -> Sequence[str]:
        """The ids of runs that could go on, and for so long nobody has told them."""
        ...

    async def forget(self, *, older_than_seconds: float) -> int:
        """Forget what is over; returns how many posts and expectations went."""
        ...
