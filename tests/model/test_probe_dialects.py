"""The probe against every scripted dialect there is: it may find what it likes, never fall over."""

from __future__ import annotations

from typing import Any

import pytest

from tests.model.puredriver import load
from tests.model.speakers import Body, probed
from worker.model.dialect import Verdict
from worker.model.probe import Standing

HANDED = load("dialects.json")
SECONDS = 3.0
SLOW = {"H21"}  # a trickle, longer than the probe


async def at_once(seconds: float) -> None:
    """Wait for nobody."""


@pytest.mark.parametrize(
    "case", [case for case in HANDED if case["id"] not in SLOW], ids=lambda case: case["id"]
)
async def test_probe_survives_every_dialect(case: dict[str, Any]) -> None:
    """Whatever is answered there is a report, and what makes an endpoint unusable is in it."""
    responses = case["responses"]
    requests: list[Body] = []

    def answer(_: Body) -> Body:
        return responses[min(len(requests), len(responses)) - 1]

    report = await probed(answer, requests=requests, seconds=SECONDS, sleep=at_once)

    verdicts = {trait.verdict for trait in report.traits}
    assert report.requests == len(requests) <= 12
    assert report.traits
    assert report.standing == Standing.USABLE or Verdict.WRONG in verdicts
    assert all(trait.does or trait.verdict is Verdict.OK for trait in report.traits)
