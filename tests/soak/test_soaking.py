"""The soak still runs, and sees what grows."""

from __future__ import annotations

import dataclasses
import os

import pytest

from tests.soak.__main__ import soak
from tests.soak.weights import MIB, SLACK, Weight, grown, weigh

STEADY = Weight(resident=80 * MIB, descriptors=28, threads=11, files=4 * MIB)


@pytest.mark.system
@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_some_seconds_of_it_are_sound(capsys):
    """Tasks come back, somebody is killed, nothing is wrong."""
    assert await soak("sqlite", 12.0, seed=2) == []
    assert " 0 tasks" not in capsys.readouterr().out


@pytest.mark.parametrize("name", list(SLACK))
def test_what_grows_is_named(name):
    """A little more in each sample is seen at the end, whatever it is."""
    step = SLACK[name] // 5
    rising = [
        dataclasses.replace(STEADY, **{name: getattr(STEADY, name) + number * max(1, step)})
        for number in range(30)
    ]

    (said,) = grown(rising)
    assert said.startswith(f"{name} grew from ")


def test_what_only_warms_up_does_not_grow():
    """The first third does not count, nor what comes and goes."""
    cold = dataclasses.replace(STEADY, resident=40 * MIB, files=0)
    uneasy = dataclasses.replace(STEADY, descriptors=29, files=5 * MIB)

    assert grown([cold] * 10 + [STEADY, uneasy] * 10) == []


def test_two_samples_tell_nothing():
    """A soak that was too short says so, and is not sound."""
    assert grown([STEADY, STEADY]) == ["too few samples to tell whether anything grows"]


def test_a_process_is_weighed(tmp_path):
    """This one: it has a size, descriptors and a thread; files are those of the queue."""
    (tmp_path / "tasks.db").write_bytes(b"x" * 100)
    (tmp_path / "other").write_bytes(b"x" * 100)
    weight = weigh(os.getpid(), tmp_path)

    assert weight.resident > MIB and weight.descriptors > 2 and weight.threads >= 1
    assert weight.files == 100
