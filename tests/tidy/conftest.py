"""All of tidy in one process, which reads the sources once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tidy.sources import forget

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of this folder together (with xdist's `--dist loadgroup`)."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.xdist_group("tidy"))


def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    """Forget the sources after the last test of this folder."""
    if nextitem is None or not nextitem.path.is_relative_to(HERE):
        forget()
