"""The process ends when it is told to, whatever a tool goes on doing."""

from __future__ import annotations

import signal

import pytest

from tests.system.processes import until

DRAIN_SECONDS = 1
SETTINGS = {"WORKER__DRAIN_SECONDS": str(DRAIN_SECONDS), "QUEUE__LEASE_SECONDS": "30"}
HASTE = {"GUARDS__IGNORE__TIMEOUT_SECONDS": "1", "GUARDS__IGNORE__ATTEMPTS": "1"}
AFTERWARDS_SECONDS = 8  # to hand back, to close, and to wait for what will not end


@pytest.mark.parametrize("tool", ["ignore", "occupy"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_tool_that_never_ends_cannot_keep_the_process(site, tool, number):
    """One signal is enough: the drain, a short wait, exit code 0, and every line is out."""
    process = site.start(admin=True, **SETTINGS)
    await process.ready()
    await site.submit("t", f"{tool} x")
    await site.effect(f"{tool} x")
    process.send(number)
    code = await process.ended(within=DRAIN_SECONDS + AFTERWARDS_SECONDS)

    assert code == 0
    assert process.events()[-1] == "worker.stop"
    assert (await site.queue.depth()).ready == 1


async def test_a_second_signal_need_not_wait_for_the_drain(site):
    """Asked twice, it hands the run back at once and leaves the tool to itself."""
    process = site.start(admin=True, **{**SETTINGS, "WORKER__DRAIN_SECONDS": "20"})
    await process.ready()
    await site.submit("t", "ignore x")
    await site.effect("ignore x")
    process.send(signal.SIGTERM)
    await until(lambda: process.ask("/readyz")[0] == 503, within=10, what="the drain")
    code = await process.stop(within=AFTERWARDS_SECONDS)

    assert code == 0
    assert (await site.queue.depth()).ready == 1


async def test_an_answer_is_printed_though_a_tool_goes_on(site):
    """`ask` says what the model said, with its own exit code, and then it leaves."""
    ended = await site.run("ask", "t: ignore x", **HASTE)

    assert (ended.returncode, ended.stdout.splitlines()[0]) == (0, "done: t")
