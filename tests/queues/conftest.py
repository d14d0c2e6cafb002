"""What the tests of one engine stand on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.queues.sqliterig import Rig


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    """A rig on an empty file."""
    rig = Rig(tmp_path)
    yield rig
    await rig.close()
