"""What others build upon changes on purpose only: in the commit that changes its list as well."""

from __future__ import annotations

import pytest

from tests.surface.listing import FOLDER, SURFACES, text_of_surface


@pytest.mark.parametrize("name", sorted(SURFACES))
def test_a_surface_is_as_it_is_written_down(name):
    """A difference is a change for users: see it, mean it, then renew the list.

    `python -m tests.surface.listing` writes all of them.
    """
    assert text_of_surface(name) == (FOLDER / f"{name}.txt").read_text("utf-8")
