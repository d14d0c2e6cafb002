"""The sources are read once, by the one process that all of tidy runs in (tests/spreading.py)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tidy.sources import forget

HERE = Path(__file__).parent


def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    """Forget the sources after the last test of this folder."""
    if nextitem is None or not nextitem.path.is_relative_to(HERE):
        forget()
