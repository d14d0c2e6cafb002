"""How many tasks may still be put into a SQLite queue whose depth is bounded."""

from __future__ import annotations

import time
from typing import Any

from worker.queues import sqlite_statements as sql

_SECONDS = 1.0  # for which a count is believed


class Room:
    """The room left in the queue `name`, as counted at times. Belongs to the writer thread.

    It is counted seldom while there is much of it, and with each put when there is little.
    """

    def __init__(self, name: str, depth_max: int) -> None:
        self.left = 0  # puts that may follow before it is counted again
        self._name = name
        self._depth_max = depth_max
        self._until = 0.0

    def __repr__(self) -> str:
        return f"Room({self._name!r}, {self.left} of {self._depth_max} left)"

    def is_left(self, connection: Any) -> bool:
        """Whether a task more may wait."""
        if self.left <= 0 or time.monotonic() > self._until:
            values = {"queue": self._name, "limit": self._depth_max}
            room = self._depth_max - connection.execute(sql.WAITING, values).fetchone()[0]
            self.left = (room + 1) // 2  # other processes put as well
            self._until = time.monotonic() + _SECONDS
        return self.left > 0
