"""Ids that this worker makes up."""

from __future__ import annotations

import uuid


def new_task_id() -> str:
    """A task id that nobody else has."""
    return uuid.uuid4().hex
