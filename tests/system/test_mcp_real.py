"""A real MCP server, from the registry and written by others, behind the built command."""

from __future__ import annotations

import json
import re
import sys

import pytest

from tests.system.mcpsite import real
from tests.system.processes import until

# Many processes that import an SDK each: on a busy machine they take their time.
pytestmark = pytest.mark.timeout(180)


async def test_its_tools_are_listed_shown_and_called_by_hand(site):
    """`loopworker tools` and `doctor` know the server."""
    listed = await site.run("tools", **real(EFFECTS="*=read"))
    assert listed.returncode == 0
    assert re.search(r"time\.get_current_time +read +mcp_time", listed.stdout)
    assert "mcp-time" in listed.stdout.split("MCP SERVER")[1]

    shown = await site.run("tools", "show", "time.convert_time", **real())
    wire = json.loads(shown.stdout)
    assert (wire["effect"], wire["effect_declared"]) == ("write", False)
    assert "source_timezone" in wire["parameters"]["properties"]

    called = await site.run("tools", "call", "time.get_current_time", "timezone=UTC", **real())
    assert (called.returncode, json.loads(called.stdout)["timezone"]) == (0, "UTC")

    wrong = await site.run("tools", "call", "time.get_current_time", "zone=UTC", **real())
    assert wrong.returncode == 2
    assert "timezone: required, but missing" in wrong.stderr

    found = await site.run("doctor", "--no-probe", **real())
    assert "ok    mcp       time: mcp-time" in found.stdout


async def test_a_task_uses_it_and_nothing_is_left_of_it(site):
    """Through queue, loop, guard and the official SDK; a drain ends the server."""
    worker = site.start(admin=True, **real(EFFECTS="*=read"))
    await worker.said("mcp.ready", within=40)
    await worker.ready(within=40)
    await site.submit("t", "time_get_current_time timezone=Asia/Tokyo")
    result = await site.result("t", within=15)

    assert result.status == "completed"
    assert [(c.name, c.source) for c in result.tool_calls] == [("time.get_current_time", "live")]
    assert "Asia/Tokyo" in site.model.told("t")[1]
    count = 'loopworker_tool_results_total{source="live",tool="time.get_current_time"} 1.0'
    await until(lambda: count in worker.ask("/metrics")[1], within=5, what=count)
    assert await worker.stop() == 0
    ready = next(line for line in worker.lines() if line["event"] == "mcp.ready")
    assert (ready["mcp_server"], ready["tool_count"]) == ("time", 2)


async def test_what_the_server_calls_a_mistake_is_for_the_model(site):
    """It says nothing about the server's health, and nothing stands in."""
    worker = site.start(admin=True, **real(EFFECTS="*=read", STUB="closed"))
    await worker.said("mcp.ready", within=40)
    await site.submit("t", "time_get_current_time timezone=Nowhere/Never")
    result = await site.result("t", within=15)

    assert [(c.source, c.attempts) for c in result.tool_calls] == [("error", 1)]
    assert "Nowhere" in site.model.told("t")[1]
    assert result.degraded == ()


async def test_a_server_that_is_not_installed_holds_up_nobody(site):
    """The worker is ready all the same; a task that names its tool ends, degraded and honest."""
    worker = site.start(
        admin=True, **real(COMMAND="no-such-program", STUB="clock closed"), CONCURRENCY="2"
    )
    await worker.ready(within=40)
    await site.submit("t", "time_get_current_time timezone=UTC", tools=["time.get_current_time"])
    result = await site.result("t", within=20)

    assert [(c.name, c.source) for c in result.tool_calls] == [("time.get_current_time", "stub")]
    assert [d.tool for d in result.degraded] == ["time.get_current_time"]
    await until(lambda: "mcp.away" in worker.events(), within=5, what="a line that tells it")
    away = next(line for line in worker.lines() if line["event"] == "mcp.away")
    assert "no-such-program" in away["reason"]

    found = await site.run("doctor", "--no-probe", **real(COMMAND="no-such-program"))
    assert "FAIL  mcp       time: 'no-such-program' was not found; is it installed?" in found.stdout
    assert found.returncode == 4


async def test_a_program_that_ends_at_its_start_is_quoted(site):
    """`doctor` tells what it said on its standard error: no secret by its shape or its value."""
    script = "import sys; sys.exit('no module named weather, password=hunter22, plum orchard 77')"
    server = real(COMMAND=sys.executable, ARGS=f'-c "{script}"', ENV__WEATHER_KEY="plum orchard 77")
    found = await site.run("doctor", "--no-probe", **server)

    (line,) = [each for each in found.stdout.splitlines() if "FAIL  mcp" in each]
    assert "; it said: no module named weather" in line
    assert not [word for word in ("hunter22", "orchard") if word in line]
