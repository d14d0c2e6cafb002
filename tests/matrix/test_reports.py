"""Whatever was reported elsewhere is a test here, or a fault of the matrix; and those exist."""

from __future__ import annotations

import importlib
import re

import pytest

from tests.matrix.faults import FAULTS
from tests.matrix.reports import REPORTS, Report
from tests.matrix.table import NAMES, page

# The numbers of a list that had more of them; some stand for nothing any more.
NUMBERS = {*range(1, 47)} - {6, 12, 14, 15, 26, 34, 36, 39, 41, 43, 45}


def test_every_report_is_listed_once() -> None:
    """In the order of the numbers, and none without its places."""
    assert [report.number for report in REPORTS] == sorted(NUMBERS)
    assert all(report.places and report.trouble for report in REPORTS)


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: str(report.number))
def test_what_covers_a_report_exists(report: Report) -> None:
    """Each test can be run by its name, and each fault is in the matrix."""
    names = {fault.name for fault in FAULTS}

    assert report.tests or report.note
    assert [name for name in report.faults if name not in names] == []
    for name in report.tests:
        path, *parts = name.split("::")
        found = importlib.import_module(path.removesuffix(".py").replace("/", "."))
        for part in parts:
            found = getattr(found, part)
        assert re.match("test_", parts[-1])
        assert callable(found)


def test_the_page_names_them() -> None:
    """Below the table of the faults, with what covers each; nothing of it breaks the table."""
    lines = page({engine: [] for engine in NAMES}, []).splitlines()
    shown = [line for line in lines if re.search(r"[\w-]#\d+", line)]

    assert len(shown) == sum("#" in report.places for report in REPORTS)
    assert {line.count("|") for line in shown} == {4}
    assert any(
        "celery/celery#8030" in line and "broker killed and back: idle" in line for line in shown
    )
