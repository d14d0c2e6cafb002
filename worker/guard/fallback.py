"""The ladder: alternative, stale, stub.

It is climbed when a dependency failed or could not be called; never for a business error, never
for a cancellation, and never for a write that may have had an effect (the guard sees to that).
Only live values are remembered, so a stub can never come back as a good value.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from worker.core.messages import Source
from worker.guard.attempt import Runner
from worker.guard.policy import AttemptInfo, CallPolicy, Fallback
from worker.telemetry.signals import FallbackUsed
from worker.telemetry.tell import Telemetry

STORE_SECONDS = 1.0  # the store of last good values must not become a dependency of its own


@dataclass(frozen=True, slots=True)
class Rung:
    """Where the ladder ended."""

    value: Any
    source: Source
    age_seconds: float | None = None


class Ladder:
    """The fallbacks of the tools of one guard."""

    def __init__(self, runner: Runner, *, telemetry: Telemetry, wall: Callable[[], float]) -> None:
        self._runner = runner
        self._telemetry = telemetry
        self._wall = wall

    async def climb(
        self, policy: CallPolicy, *, key: str, info: AttemptInfo, error: Exception, reason: str
    ) -> Rung | None:
        """Return the first rung that holds, or None. A broken rung is told and skipped."""
        fallback = policy.fallback
        if fallback is None:
            return None
        for name, rung in (("alternative", self._alternative), ("stale", self._stale)):
            try:
                found = await rung(fallback, key, info)
            except Exception as broken:
                self._tell(policy, name, "error", reason)
                error.__cause__ = error.__cause__ or broken
                continue
            if found is not None:
                self._tell(policy, name, "success", reason)
                return found
        if fallback.stub is None:
            return None
        self._tell(policy, "stub", "success", reason)
        return Rung(fallback.stub, Source.STUB)

    async def remember(self, fallback: Fallback, *, key: str, value: Any) -> None:
        """Keep a live value for the stale rung. A failure to keep it is not an error."""
        if fallback.last_good is None or fallback.stale_seconds is None:
            return
        try:
            text = json.dumps(value, ensure_ascii=False)
            async with asyncio.timeout(STORE_SECONDS):
                await fallback.last_good.remember(key, text, at=self._wall())
        except Exception:
            pass

    async def _alternative(self, fallback: Fallback, _key: str, info: AttemptInfo) -> Rung | None:
        if fallback.alternative is None:
            return None
        told = replace(info, timeout_seconds=fallback.alternative_seconds)
        value = await self._runner.run(fallback.alternative, told)
        return Rung(value, Source.ALTERNATIVE)

    async def _stale(self, fallback: Fallback, key: str, _info: AttemptInfo) -> Rung | None:
        if fallback.last_good is None or fallback.stale_seconds is None:
            return None
        async with asyncio.timeout(STORE_SECONDS):
            found = await fallback.last_good.recall(key)
        if found is None:
            return None
        age = max(0.0, self._wall() - found.at)
        if age > fallback.stale_seconds:
            return None
        return Rung(json.loads(found.value), Source.STALE, age)

    def _tell(self, policy: CallPolicy, rung: str, outcome: str, reason: str) -> None:
        self._telemetry.tell(FallbackUsed(policy.kind, policy.target, rung, outcome, reason))


def stale_key(scope: str, target: str, arguments_key: str) -> str:
    """Name a last good value. The length keeps one tenant's scope from running into the rest."""
    return f"{len(scope)}:{scope}/{target}/{arguments_key}"
