"""How far a count of the waiting tasks may be relied upon."""

from __future__ import annotations

import pytest

from worker.queues.room import Room


@pytest.mark.parametrize(("waiting", "left"), [(0, 5), (1, 5), (8, 1), (9, 1), (10, 0)])
def test_half_of_the_room_is_left_to_other_processes(waiting: int, left: int) -> None:
    """One that counts 10 free places takes 5, and counts again; the last one is taken at once."""
    room = Room("tasks", 10)
    room.counted(waiting)

    assert room.left == left
    assert room.is_unknown is (left == 0)


def test_a_queue_that_is_too_full_has_no_room() -> None:
    """More may wait than the limit allows now: it was larger once."""
    room = Room("tasks", 10)
    room.counted(25)

    assert room.left <= 0
