"""What others build upon changes on purpose only: in the commit that changes its list as well."""

from __future__ import annotations

import dataclasses

import pytest

from tests.surface import gapstable, settingstable
from tests.surface.listing import FOLDER, SURFACES, text_of_surface
from worker.queues.gaps import GAPS
from worker.queues.port import Capabilities


@pytest.mark.parametrize("name", sorted(SURFACES))
def test_a_surface_is_as_it_is_written_down(name):
    """A difference is a change for users: see it, mean it, then renew the list.

    `python -m tests.surface.listing` writes all of them.
    """
    assert text_of_surface(name) == (FOLDER / f"{name}.txt").read_text("utf-8")


def test_the_page_of_settings_tells_all_of_them():
    """Every setting is on the page, with its default and what it is for.

    `python -m tests.surface.listing` writes it.
    """
    page = settingstable.page()

    assert page == settingstable.PAGE.read_text("utf-8")
    assert page.count("| `LOOPWORKER_") > 80
    assert "|  |  |" not in page
    assert not [line for line in page.splitlines() if line.endswith("|  |")]


def test_the_readme_tells_what_engines_cannot_do():
    """Every gap of every engine is in its table, and each that there can be is put into words.

    `python -m tests.surface.listing` writes it.
    """
    assert gapstable.page() == gapstable.PAGE.read_text("utf-8")
    assert gapstable.table() in gapstable.PAGE.read_text("utf-8")
    assert set(GAPS) == {field.name for field in dataclasses.fields(Capabilities)}
