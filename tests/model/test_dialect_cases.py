"""The dialect cases, played through the pure half: what servers send, and what we make of it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.model.puredriver import Conversation, load
from tests.model.verify import verify

HANDED = load("dialects.json")
# What these are about is not in the pure half: time, the size of results, the loop's own limits.
ELSEWHERE = {"H21", "I02", "I03", "I08", "I10"}


@pytest.mark.parametrize(
    "case", [case for case in HANDED if case["id"] not in ELSEWHERE], ids=lambda case: case["id"]
)
def test_handed_case(case: dict[str, Any]) -> None:
    """Every case ends as it should, with the right calls run and the right requests sent."""
    conversation = Conversation(case)

    outcome = conversation.play()

    assert verify(case, outcome, conversation.requests) == []
