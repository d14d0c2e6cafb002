"""How many tasks may still be put into a queue whose depth is bounded, without counting each time."""

from __future__ import annotations

import time

_SECONDS = 1.0  # for which a count is believed


class Room:
    """The room left in the queue `name`, as counted at times.

    It is counted seldom while there is much of it, and with each put when there is little.
    """

    def __init__(self, name: str, depth_max: int) -> None:
        self.left = 0  # puts that may follow before it is counted again
        self.depth_max = depth_max
        self._name = name
        self._until = 0.0

    def __repr__(self) -> str:
        return f"Room({self._name!r}, {self.left} of {self.depth_max} left)"

    @property
    def is_unknown(self) -> bool:
        """Whether the waiting tasks have to be counted before the next put."""
        return self.left <= 0 or time.monotonic() > self._until

    def counted(self, waiting: int) -> None:
        """Note how many tasks wait; what lies beyond the limit need not be counted."""
        self.left = (self.depth_max - waiting + 1) // 2  # other processes put as well
        self._until = time.monotonic() + _SECONDS
