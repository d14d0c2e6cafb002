"""What a tool starts beside its call cannot end the worker, whatever it raises."""

from __future__ import annotations

import json

import pytest

STRAYS = ["task", "interrupt", "callback", "stop"]


@pytest.mark.parametrize("stray", STRAYS)
async def test_worker_outlives_what_its_tools_leave_in_the_loop(site, stray):
    """The task is answered, its neighbour is, the log tells of it, and the drain is a drain."""
    process = site.start(admin=True)
    await process.ready()
    await site.submit("guilty", f"stray {stray}, look a")
    await site.submit("neighbour", "look b")
    guilty = await site.result("guilty", within=10)
    neighbour = await site.result("neighbour", within=10)
    code = await process.stop()

    assert (guilty.status, neighbour.status) == ("completed", "completed")
    assert site.effects("stray") == [f"stray {stray}"]
    assert code == 0
    assert "the loop goes on" in process.log.read_text()


async def test_what_tools_say_beside_goes_where_it_belongs(site):
    """Stdout has our lines alone, masked; what is printed stands on stderr."""
    with (site.folder / "lines").open("wb") as lines:
        process = site.start(stdout=lines)
        await site.submit("t", "chatter twice")
        result = await site.result("t", within=15)
        code = await process.stop()
    said = [json.loads(line) for line in (site.folder / "lines").read_bytes().splitlines()]
    theirs = {line["logger"]: line["message"] for line in said if line["event"] == "log.message"}

    assert (result.status, code) == ("completed", 0)
    assert theirs["library"] == "logged twice, password=[redacted]"
    assert "warned of twice" in theirs["py.warnings"]
    assert process.log.read_text() == "printed twice\n"


async def test_tool_that_cancels_everything_is_no_good_end(site):
    """The worker cannot go on; it says so in one line and with a code that a supervisor acts on."""
    process = site.start()
    await site.submit("t", "cancel_all once")
    code = await process.ended(within=15)
    last = process.log.read_text().splitlines()[-1]

    assert code == 1
    assert last.startswith("loopworker: something in this process cancelled all its tasks")


async def test_one_question_outlives_them_too(site):
    """`ask` and `tools call` print what there is, with their own exit codes."""
    asked = await site.run("ask", "t: stray task, stray interrupt, look a")
    called = await site.run("tools", "call", "stray", "text=task")

    assert (asked.returncode, asked.stdout.strip()) == (0, "done: t")
    assert (called.returncode, called.stdout.strip()) == (0, "task is on its way")
