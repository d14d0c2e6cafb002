"""What a tool starts beside its call cannot end the worker, whatever it raises."""

from __future__ import annotations

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


async def test_one_question_outlives_them_too(site):
    """`ask` and `tools call` print what there is, with their own exit codes."""
    asked = await site.run("ask", "t: stray task, stray interrupt, look a")
    called = await site.run("tools", "call", "stray", "text=task")

    assert (asked.returncode, asked.stdout.strip()) == (0, "done: t")
    assert (called.returncode, called.stdout.strip()) == (0, "task is on its way")
