"""A tool of a server that a person has to allow waits for that person."""

from __future__ import annotations

from tests.system.mcpsite import hostile, notes
from tests.system.processes import until


async def test_a_call_that_needs_an_approval_is_not_made_without_one(site):
    """The server came after the start, and its tools are held back all the same."""
    worker = site.start(**hostile(site.folder, APPROVAL="wri*"))
    await worker.said("mcp.ready", within=40)
    await site.submit("t", "h_echo one, h_write two")

    async def is_parked():
        return (await site.queue.depth()).parked == 1

    await until(is_parked, within=20, what="a run that waits for a person")
    assert "echo one" in notes(site.folder)
    assert "write two" not in notes(site.folder)
