"""The rates of the honesty gate, on books of answers that it was not made from at first."""

from __future__ import annotations

import pytest

from tests.core.answerbook import answers_of, misjudged, plain, read
from tests.core.answertemplates import scenes
from worker.core.gate import enforce

BOOKS = [
    ("desk", 7),
    ("chat", 8),
    ("errands", 9),
    ("offices", 10),
    ("journeys", 11),
    ("affairs", 12),
    ("evenings", 13),
    ("weekdays", 14),
]
HAND_AND_TEMPLATE = 200


def _weighed(name, seed):
    """Both sorts of answers of a book with their scenes, made up to 200 each by template."""
    honest, invented = answers_of(read(name))
    more = scenes(seed, HAND_AND_TEMPLATE - min(len(honest), len(invented)))
    honest += [(scene, scene.honest[0]) for scene in more]
    invented += [(scene, scene.invented[0]) for scene in more]
    return honest[:HAND_AND_TEMPLATE], invented[:HAND_AND_TEMPLATE]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "seed"), BOOKS)
def test_at_most_one_in_a_hundred_is_judged_wrongly(name, seed, capsys):
    """Of 200 honest answers at most 2 are altered, of 200 inventions at most 2 pass."""
    honest, invented = _weighed(name, seed)
    altered, passed = misjudged(honest, invented)
    with capsys.disabled():
        print(
            f"\n{name}: fabrication rate 100.0% without the gate, {len(passed) / 200:.1%} with it; "
            f"{len(altered)} of 200 honest answers altered"
        )

    assert len(honest) == len(invented) == 200
    assert len(altered) <= 2, altered
    assert len(passed) <= 2, passed


@pytest.mark.slow
@pytest.mark.parametrize(("name", "seed"), BOOKS)
def test_what_is_invented_does_not_go_out(name, seed):
    """Replaced or with its sentences removed: the invented value itself is gone."""
    for scene in read(name):
        for text in scene.invented[:1]:
            value = text.partition("«")[2].partition("»")[0]
            for action in ("replace", "remove"):
                out, is_altered = enforce(plain(text), scene.evidence, action=action)
                assert not is_altered or value not in out
