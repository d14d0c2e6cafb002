"""`get_current_time`: the smallest tool, called by a test as a function."""

from __future__ import annotations

import datetime
import re
import zoneinfo

import pytest

from tools.clock import get_current_time
from worker import ToolError


def test_time_is_told_in_the_zone_asked_for():
    """Date, time, weekday and offset, to be read by a model."""
    before = datetime.datetime.now(zoneinfo.ZoneInfo("Asia/Shanghai")).replace(microsecond=0)
    told = get_current_time("Asia/Shanghai")
    match = re.fullmatch(r"(\S+ \S+) (\w+day) \(Asia/Shanghai, UTC\+0800\)", told)

    assert match
    moment = datetime.datetime.strptime(match[1] + " +0800", "%Y-%m-%d %H:%M:%S %z")
    assert before <= moment <= before + datetime.timedelta(seconds=30)
    assert match[2] == moment.strftime("%A")


def test_time_without_a_zone_is_utc():
    """The default is in the schema, and Python applies it."""
    assert get_current_time().endswith("(UTC, UTC+0000)")
    assert get_current_time.parameters["properties"]["timezone"]["default"] == "UTC"


@pytest.mark.parametrize("zone", ["Mars/Olympus", "", "../UTC", "/etc/passwd", "America", "\x00"])
def test_unknown_zone_is_told_to_the_model(zone: str):
    """A ToolError goes to the model as it stands, with a way out."""
    with pytest.raises(ToolError, match="use one such as Asia/Shanghai"):
        get_current_time(zone)
