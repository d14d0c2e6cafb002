"""What tools declare of themselves, what operations say instead, and what is offered then."""

from __future__ import annotations

import pytest

from worker import tool
from worker.core.errors import ConfigError
from worker.registry import Registry


def made(name: str, **options: object):
    """A tool of that name."""

    def function(number: int) -> int:
        return number

    return tool(name=name, description="Look at a number.", **options)(function)


@pytest.mark.parametrize("option", ["poller", "requires_approval"])
def test_operations_may_add_to_what_is_declared_and_take_it_back(option: str):
    """`-name` takes a declaration back; a name that is no tool's is refused."""
    registry = Registry([made("one", **{option: True}), made("two"), made("three")])
    ask = registry.pollers if option == "poller" else registry.approvals

    assert ask() == {"one"}
    assert ask(["two"]) == {"one", "two"}
    assert ask(["-one", "three"]) == {"three"}
    assert ask(["-two"]) == {"one"}
    with pytest.raises(ConfigError, match="there is no tool 'four'; there are: one, two, three"):
        ask(["-four"])


def test_a_job_that_does_not_say_its_effect_is_a_write():
    """What it has begun is never begun again; a plain tool of these words is a read."""
    assert made("plain").effect == "read"
    assert made("longer", job=True).effect == "write"
    assert made("report", job=True, effect="read").effect == "read"


def test_tools_that_are_put_in_the_place_of_others_are_offered_at_once():
    """A server that lists other tools than before: those count from the next run on."""
    registry = Registry([made("own"), made("s.old")])
    assert [each.name for each in registry.offered()] == ["own", "s.old"]

    assert registry.replace("s.", [made("s.new"), made("own")]) == ["own"]

    assert [each.name for each in registry.offered()] == ["own", "s.new"]
    assert registry.get("s.old") is None
