"""Why a task waits, as `loopworker status` and the API tell it of real workers and queues."""

from __future__ import annotations

import json
import time

import pytest

from tests.system.processes import until
from worker.core.wireformat import rfc3339


async def why(site, task_id):
    """What `status` says of a task: its JSON, and the sentence on stderr."""
    as_json, said = [await site.run("status", task_id, *more) for more in (("--json",), ())]
    return json.loads(as_json.stdout)["why"], said.stderr


@pytest.mark.slow
async def test_a_task_says_what_it_waits_for(site):
    """No worker, a schedule, a worker that has it, another task of its session; then nothing."""
    later = rfc3339(time.time() + 3600)
    task = json.dumps({"id": "later", "input": "later: look a", "not_before": later})
    await site.run("submit", task, "--json-task")
    await site.submit("first", "hold go", session_id="desk")
    await until(lambda: why_is(site, "first", "no worker receives"), within=15, what="a word of it")
    scheduled = await why(site, "later")
    process = site.start(admin=True, http=True)
    await process.ready()
    await site.effect("hold go")
    held = await why(site, "first")
    await site.submit("second", "look b", session_id="desk")
    await until(lambda: why_is(site, "second", "is busy with task"), within=15, what="its line")
    busy = await why(site, "second")
    site.ask_for("go")
    await site.result("second", within=10)
    done = await why(site, "second")

    assert scheduled[0]["reason"] == "scheduled"
    assert scheduled[0]["until"][:19] == later[:19]
    assert f"not to begin before its time, at {later[:19]}" in scheduled[1]
    assert (held[0]["reason"], "has it, until" in held[1]) == ("leased", True)
    assert f":{process.popen.pid}" in held[0]["text"]
    assert (busy[0]["reason"], busy[0]["task"]) == ("session", "first")
    assert done[0] is None


async def why_is(site, task_id, words):
    """Whether a task gives this reason by now."""
    shown = json.loads((await site.run("status", task_id, "--json")).stdout)["why"]
    return shown is not None and words in shown["text"]
