"""Into which parts one named queue is split, and which task goes into which."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterable
from dataclasses import dataclass

SHARDS_MAX = 128
SESSION, TENANT = "session", "tenant"
_FIELDS = {SESSION: ("session_id",), TENANT: ("tenant", "session_id")}
_PART = re.compile(r"-shard-[1-9][0-9]*")
_RANGE = re.compile(r"([0-9]{1,4})(?:-([0-9]{1,4}))?")


def shard_name(queue: str, number: int) -> str:
    """What a shard of a queue is called; the first has the name of the queue itself.

    So a queue that was never split is the first shard of every split, and nothing in it is lost.
    """
    return queue if number == 0 else f"{queue}-shard-{number}"


def is_part_of(name: str, queue: str) -> bool:
    """Whether a name is that of a queue of tasks, or of a shard of it, whatever their number."""
    return name == queue or (
        name.startswith(queue) and _PART.fullmatch(name, len(queue)) is not None
    )


def shard_of(key: str, count: int) -> int:
    """The number of the shard of a key: its CRC-32 (as in zip files, of UTF-8) modulo the count."""
    return zlib.crc32(key.encode("utf-8", "surrogatepass")) % count


def read_shard_set(text: str) -> tuple[int, ...]:
    """Read `0,2,5-7`, in order and each once; empty for all. Raises ValueError."""
    numbers: set[int] = set()
    for part in text.replace(" ", "").split(","):
        if not part and not text.strip():
            continue
        found = _RANGE.fullmatch(part)
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
        if not first <= last < SHARDS_MAX:
            raise ValueError(
                f"{part[:40]!r} is no set of shards; write 0-3,7 with numbers below {SHARDS_MAX}"
            )
        numbers.update(range(first, last + 1))
    return tuple(sorted(numbers))


@dataclass(frozen=True, slots=True)
class Sharding:
    """How a queue is split: tasks go into the shards below `count`, by session or by tenant.

    `only` are the shards that are read; all, if it is empty. It may name shards beyond `count`:
    those of a wider split of before, which are emptied.
    """

    count: int = 1
    by: str = SESSION
    only: tuple[int, ...] = ()

    @property
    def known(self) -> range:
        """Every shard that is looked after."""
        return range(max(self.count, *(number + 1 for number in self.only), 1))

    @property
    def read(self) -> tuple[int, ...]:
        """The shards that tasks are claimed from."""
        return self.only or tuple(self.known)

    @property
    def is_whole(self) -> bool:
        """Whether there is one queue and nothing else, under its own name."""
        return len(self.known) == 1

    def of(self, body: bytes, *, task_id: str) -> int:
        """The number of the shard that a task belongs into; of any bytes."""
        return shard_of(_key_of(body, _FIELDS[self.by]) or task_id, self.count)


def _key_of(body: bytes, fields: Iterable[str]) -> str | None:
    """What a task shares with those that belong to it; None where it stands alone."""
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(said, dict):
        return None
    names = (said.get(field) for field in fields)
    return next((name for name in names if isinstance(name, str) and name), None)
