"""Claim from several queues as from one: in turn while there is work, from all at once for the first."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from worker.core.errors import LeaseLost, QueueUnavailable
from worker.queues.port import Lease, Queue

_SURPLUS = "claimed beyond the limit"
_AWAY_SECONDS = 1.0  # for which a shard that failed is left alone, or twice as long as it took


class ShardClaims:
    """The claims of one queue object on its shards, by their numbers."""

    def __init__(self, shards: Mapping[int, Queue]) -> None:
        self._shards = shards
        self._order = tuple(shards)
        self._away: dict[int, float] = {}  # until when shards that failed are left alone
        self._turn = 0  # where the next claim begins, so that each shard has its turn

    def __repr__(self) -> str:
        return f"ShardClaims({list(self._shards)})"

    async def claim(self, *, wait_seconds: float, limit: int, **wish: Any) -> list[Lease]:
        """Lease up to `limit` tasks, waiting at every shard for the first.

        Raises QueueUnavailable when no shard answers. Cancelled: what was claimed is handed back.
        """
        leases: list[Lease] = []
        try:
            for number in self._in_turn():
                left = limit - len(leases)
                leases += await self._claim_at(number, wait_seconds=0.0, limit=left, **wish)
                if len(leases) >= limit:
                    return leases
        except QueueUnavailable:
            if leases:
                return leases
        except asyncio.CancelledError:
            await self._hand_back(leases, "claim cancelled")
            raise
        else:
            if leases or wait_seconds <= 0:
                return leases
        return await self._first(wait_seconds=wait_seconds, limit=limit, **wish)

    def _in_turn(self) -> tuple[int, ...]:
        self._turn = (self._turn + 1) % len(self._order)
        order, now = self._order[self._turn :] + self._order[: self._turn], time.monotonic()
        there = tuple(number for number in order if self._away.get(number, 0.0) <= now)
        return there or order

    async def _claim_at(self, number: int, **wish: Any) -> list[Lease]:
        began = time.monotonic()
        try:
            leases = await self._shards[number].claim(**wish)
        except QueueUnavailable:
            # One that is silent would hold up the others each time until it is given up.
            now = time.monotonic()
            self._away[number] = now + max(_AWAY_SECONDS, 2 * (now - began))
            raise
        self._away.pop(number, None)
        return [replace(lease, token=f"{number}:{lease.token}") for lease in leases]

    async def _first(self, *, limit: int, **wish: Any) -> list[Lease]:
        """Wait at every shard; the first that has something ends the waiting at the others."""
        numbers = self._in_turn()
        share = max(1, limit // len(numbers))
        claims = [
            asyncio.create_task(self._claim_at(number, limit=share, **wish), name=f"shard {number}")
            for number in numbers
        ]
        waiting, has_any = set(claims), False
        try:
            while waiting and not has_any:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                has_any = any(_leases_of(claim) for claim in done)
            await _call_off(waiting)
        except asyncio.CancelledError:
            await _call_off(claims)
            await self._hand_back(_all_leases(claims), "claim cancelled")
            raise
        failures = [error for claim in claims if (error := _failure_of(claim)) is not None]
        for failure in failures:
            if not isinstance(failure, QueueUnavailable) or len(failures) == len(claims):
                await self._hand_back(_all_leases(claims), "claim failed")
                raise failure
        leases = _all_leases(claims)
        await self._hand_back(leases[limit:], _SURPLUS)
        return leases[:limit]

    async def _hand_back(self, leases: Iterable[Lease], reason: str) -> None:
        """Hand back uncounted; what is lost needs none, and a server out of reach gets none."""
        for lease in leases:
            number, _, token = lease.token.partition(":")
            with contextlib.suppress(LeaseLost, QueueUnavailable):
                await self._shards[int(number)].nack(
                    replace(lease, token=token), delay_seconds=0, counted=False, reason=reason
                )


async def _call_off(claims: Iterable[asyncio.Task[list[Lease]]]) -> None:
    """Cancel, and wait until each has said what it has."""
    open_claims = [claim for claim in claims if not claim.done()]
    for claim in open_claims:
        claim.cancel()
    if open_claims:
        await asyncio.wait(open_claims)


def _failure_of(claim: asyncio.Task[list[Lease]]) -> BaseException | None:
    return None if claim.cancelled() else claim.exception()


def _leases_of(claim: asyncio.Task[list[Lease]]) -> list[Lease]:
    if claim.cancelled() or claim.exception() is not None:
        return []
    return claim.result()


def _all_leases(claims: Iterable[asyncio.Task[list[Lease]]]) -> list[Lease]:
    return list(itertools.chain.from_iterable(_leases_of(claim) for claim in claims))
