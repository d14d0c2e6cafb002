"""Which shard a task goes into, and what shards are called."""

from __future__ import annotations

import json
import zlib

import pytest

from worker.configuration import load
from worker.core.errors import ConfigError
from worker.core.sharding import (
    SHARDS_MAX,
    Sharding,
    is_part_of,
    read_shard_set,
    shard_name,
    shard_of,
)


def body(**fields):
    """A task as callers write it."""
    return json.dumps({"input": "?", **fields}).encode()


def test_the_hash_is_written_down():
    """Other programs reckon with it: it is CRC-32, today and after every release."""
    keys = ("", "s-1", "会话", "tenant/7")

    assert [shard_of(key, 1000) for key in keys] == [zlib.crc32(k.encode()) % 1000 for k in keys]
    assert [shard_of(key, 16) for key in keys] == [0, 14, 5, 8]


def test_a_session_stays_together():
    """Whatever the ids of its tasks; without a session each goes its own way."""
    split = Sharding(16)
    of_one = {split.of(body(session_id="s"), task_id=f"t{n}") for n in range(50)}
    of_many = {split.of(body(tenant="t"), task_id=f"t{n}") for n in range(50)}

    assert of_one == {shard_of("s", 16)}
    assert len(of_many) > 8


def test_a_tenant_stays_together_where_settings_say_so():
    """Then its sessions do not matter; who has no tenant goes by session, then by id."""
    split = Sharding(16, by="tenant")
    of_one = {split.of(body(tenant="t", session_id=f"s{n}"), task_id="x") for n in range(50)}

    assert of_one == {shard_of("t", 16)}
    assert split.of(body(session_id="s"), task_id="x") == shard_of("s", 16)
    assert split.of(body(), task_id="x") == shard_of("x", 16)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"hello",
        b"\xff\xfe",
        b"[1]",
        b'{"session_id": 7}',
        b'{"session_id": ""}',
        b"[" * 90_000,
    ],
)
def test_any_bytes_have_a_shard(raw):
    """What is no task goes by its id, and is refused by whoever reads it."""
    assert Sharding(16).of(raw, task_id="x") == shard_of("x", 16)


def test_shards_are_spread_evenly():
    """Of many sessions, no shard has half as many again as its share."""
    counts = [0] * 16
    for number in range(16_000):
        counts[shard_of(f"session-{number}", 16)] += 1

    assert max(counts) < 1.5 * 1000
    assert min(counts) > 0.5 * 1000


def test_the_first_shard_is_the_queue_itself():
    """So what lies in a queue that was not split is in a shard of every split."""
    assert [shard_name("tasks", n) for n in (0, 1, 12)] == [
        *("tasks", "tasks-shard-1", "tasks-shard-12"),
    ]


@pytest.mark.parametrize(
    ("name", "is_part"),
    [
        *(("tasks", True), ("tasks-shard-1", True), ("tasks-shard-99", True)),
        *(("results", False), ("tasks-shard-0", False), ("tasks-shard-", False)),
        *(("tasks-shard-1x", False), ("mytasks", False), ("tasks-results", False)),
    ],
)
def test_results_go_into_no_shard(name, is_part):
    """A name of a shard is known for one, whatever their number is today."""
    assert is_part_of(name, "tasks") is is_part


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("", ()), (" ", ()), ("3", (3,)), ("0-2,7", (0, 1, 2, 7)), (" 1 , 0-1 ", (0, 1))],
)
def test_sets_are_read(text, numbers):
    """Numbers and ranges, in any order, each once."""
    assert read_shard_set(text) == numbers


@pytest.mark.parametrize("text", ["a", "1-", "3-1", ",", "1,,2", "-1", str(SHARDS_MAX), "0-9999"])
def test_a_wrong_set_ends_the_start(text):
    """Reading other shards than was meant would leave some unread."""
    with pytest.raises(ConfigError, match="LOOPWORKER_QUEUE_SHARD_SET"):
        load({"LOOPWORKER_QUEUE_SHARD_SET": text})


def test_shards_beyond_the_split_are_known_when_they_are_read():
    """What is emptied after a split got narrower is looked after as well."""
    split = Sharding(2, only=(2, 3))

    assert (list(split.known), split.read) == ([0, 1, 2, 3], (2, 3))
    assert {split.of(b"", task_id=str(n)) for n in range(50)} == {0, 1}
    assert Sharding().is_whole
    assert not Sharding(only=(1,)).is_whole


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"QUEUE_URL": "redis://r-{shard}", "QUEUE_SHARDS": "2"}, "STORE_URL"),
        ({"STORE_URL": "redis://r-{shard}"}, "STORE_URL"),
        ({"QUEUE_URL": "redis://r-{shard}", "STORE_URL": "redis://r"}, "QUEUE_URL"),
        ({"QUEUE_SHARDS": "0"}, "QUEUE_SHARDS"),
    ],
)
def test_splits_that_cannot_be_are_refused(settings, named):
    """Before anything is opened, with the name of the setting."""
    with pytest.raises(ConfigError, match=f"LOOPWORKER_{named}"):
        load({f"LOOPWORKER_{name}": value for name, value in settings.items()})
