"""The last attempts of one era, and whether too many of them failed or were slow."""

from __future__ import annotations

from collections import deque


class RateWindow:
    """Counts over the last `calls` attempts. Not synchronised; its breaker is."""

    def __init__(
        self, *, calls: int, calls_min: int, failure_ratio: float, slow_ratio: float
    ) -> None:
        self._ends: deque[tuple[bool, bool]] = deque(maxlen=calls)
        self._calls_min = calls_min
        self._failure_ratio = failure_ratio
        self._slow_ratio = slow_ratio
        self.failures = 0
        self.slow = 0

    def __len__(self) -> int:
        return len(self._ends)

    def __repr__(self) -> str:
        return f"RateWindow({len(self)} calls, {self.failures} failed, {self.slow} slow)"

    def add(self, *, failed: bool, slow: bool) -> None:
        """Take in the end of an attempt; the oldest one leaves when the window is full."""
        ends = self._ends
        if len(ends) == ends.maxlen:
            old_failed, old_slow = ends[0]
            self.failures -= old_failed
            self.slow -= old_slow
        ends.append((failed, slow))
        self.failures += failed
        self.slow += slow

    def objection(self) -> str | None:
        """Return the cause to open, failure_rate or slow_rate, or None."""
        calls = len(self._ends)
        if calls < self._calls_min or not (self.failures or self.slow):
            return None
        if self.failures >= self._failure_ratio * calls:
            return "failure_rate"
        if self.slow >= self._slow_ratio * calls:
            return "slow_rate"
        return None

    def clear(self) -> None:
        """Forget everything: a new era begins."""
        self._ends.clear()
        self.failures = 0
        self.slow = 0

    def snapshot(self) -> dict[str, float]:
        """Return counts and ratios; ratios are 0 while the window is empty."""
        calls = len(self._ends)
        return {
            "calls": calls,
            "failures": self.failures,
            "slow": self.slow,
            "failure_ratio": self.failures / calls if calls else 0.0,
            "slow_ratio": self.slow / calls if calls else 0.0,
        }
