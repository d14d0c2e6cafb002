"""What the honesty gate does on books that were new to it: measured, and not to worsen."""

from __future__ import annotations

import pytest

from tests.core.answerbook import answers_of, misjudged, read

# The book, its honest answers and how many of them are altered, its inventions and how many pass.
# The gate was mended on all of them, once each had been measured unseen (decision 0023).
MEASURED = [
    ("towns", (210, 5), (210, 16)),
    ("harbours", (210, 10), (210, 11)),
    ("gardens", (84, 13), (105, 6)),
    ("wards", (205, 17), (205, 11)),
    ("freights", (100, 20), (100, 5)),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "of_honest", "of_invented"), MEASURED)
def test_the_rates_on_new_books_do_not_worsen(name, of_honest, of_invented, capsys):
    """No more is judged wrongly than when the book was last run (decision 0023)."""
    honest, invented = answers_of(read(name))
    altered, passed = misjudged(honest, invented)
    with capsys.disabled():
        print(
            f"\n{name}: {len(passed)} of {len(invented)} inventions pass; "
            f"{len(altered)} of {len(honest)} honest answers altered"
        )

    assert (len(honest), len(invented)) == (of_honest[0], of_invented[0])
    assert len(altered) <= of_honest[1], altered
    assert len(passed) <= of_invented[1], passed
