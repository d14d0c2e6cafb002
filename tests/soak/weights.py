"""What a process and its files weigh, and whether that grows."""

from __future__ import annotations

import os
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Weight:
    """Bytes and counts at one moment."""

    resident: int
    descriptors: int
    threads: int
    files: int

    def __str__(self) -> str:
        return (
            f"{self.resident / MIB:.1f} MiB, {self.descriptors} descriptors, {self.threads} threads,"
            f" {self.files / MIB:.1f} MiB of files"
        )


# How much the last third may weigh beyond the second: what one round of pruning may be late by.
SLACK = {"resident": 6 * MIB, "descriptors": 3, "threads": 2, "files": 4 * MIB}


def weigh(pid: int, folder: Path) -> Weight:
    """Weigh a process, and the files of the queue in its folder. Raises OSError when it is gone."""
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    words = {line.split(":")[0]: line.split()[1] for line in status if len(line.split()) > 1}
    files = sum(found.stat().st_size for found in folder.glob("tasks.db*"))
    return Weight(
        resident=int(words["VmRSS"]) * 1024,
        descriptors=len(os.listdir(f"/proc/{pid}/fd")),
        threads=int(words["Threads"]),
        files=files,
    )


def grown(weights: Sequence[Weight]) -> list[str]:
    """Say what is heavier in the last third than in the second; the first is for warming up."""
    third = len(weights) // 3
    before, after = weights[third : 2 * third], weights[2 * third :]
    if not before:
        return ["too few samples to tell whether anything grows"]
    said = []
    for field in fields(Weight):
        first, last = (
            statistics.median(getattr(each, field.name) for each in part)
            for part in (before, after)
        )
        if last > first + SLACK[field.name]:
            said.append(f"{field.name} grew from {first:.0f} to {last:.0f}")
    return said
