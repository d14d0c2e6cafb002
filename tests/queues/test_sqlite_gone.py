"""A file that is deleted, replaced or damaged is told of; nobody works on with a ghost."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path

import pytest

from tests.queues.conftest import Rig
from worker.core.errors import ConfigError, QueueUnavailable, StoreUnavailable
from worker.queues import open_queue
from worker.queues.port import Ticket

GONE = "was deleted or replaced while it was open; restart the worker"


def delete(path: Path) -> None:
    """Take the name away; the open file lives on without one."""
    path.unlink()


def replace(path: Path) -> None:
    """Put another file in its place, as a restored copy is."""
    other = path.with_suffix(".copy")
    other.write_bytes(path.read_bytes())
    os.replace(other, path)


@pytest.mark.parametrize("harm", [delete, replace])
async def test_file_that_is_gone_stops_work_with_a_word(rig: Rig, harm) -> None:
    """Neither queue nor journal takes anything more; a task accepted here would be lost."""
    await rig.queue.put(Ticket(id="before", body=b"1"))
    assert await rig.queue.claim(owner="w", lease_seconds=5, wait_seconds=1)
    harm(Path(rig.path))

    with pytest.raises(QueueUnavailable, match=GONE):
        await rig.queue.put(Ticket(id="after", body=b"1"))
    with pytest.raises(QueueUnavailable, match=GONE):
        await rig.queue.claim(owner="w", lease_seconds=5, wait_seconds=0.1)
    with pytest.raises(StoreUnavailable, match=GONE):
        await rig.store.open("run", owner="w", lease_seconds=5)


@pytest.mark.parametrize("part", ["head", "schema", "all"])
async def test_damaged_file_is_no_bug_of_ours(tmp_path: Path, part: str) -> None:
    """One line says which file is damaged."""
    await open_queue(f"sqlite:///{tmp_path}/sound.db").close()
    damaged = damaged_copy(tmp_path / "sound.db", part)

    with pytest.raises(ConfigError) as caught:
        open_queue(f"sqlite:///{damaged}")
    assert str(caught.value).startswith(f"{damaged}: ")
    assert "damaged" in str(caught.value) or "malformed" in str(caught.value)


def damaged_copy(path: Path, part: str) -> Path:
    """A copy with bits turned over."""
    with contextlib.closing(sqlite3.connect(path)) as last:  # two that close at once leave the log
        last.execute("pragma wal_checkpoint(truncate)")
    raw = bytearray(path.read_bytes())
    places = {"head": range(60), "schema": range(110, 12_000, 7), "all": range(0, len(raw), 97)}
    for place in places[part]:
        raw[place] ^= 0xD7
    damaged = path.with_name("damaged.db")
    damaged.write_bytes(raw)
    return damaged
