"""What `ask` does when its run waits: the person at the terminal is the one to decide."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from worker.cli.deciding import arguments_line, told_of
from worker.cli.output import one_line, tell
from worker.cli.remote import myself
from worker.web.waiting import Decision, NotAccepted

_YES = ("y", "yes", "是")


class Consent:
    """Answers for the calls of one foreground run. `is_shared`: others can reach its store."""

    def __init__(self, desk: Any, *, is_shared: bool) -> None:
        self._desk = desk
        self._is_shared = is_shared
        self._told: set[str] = set()

    async def __call__(self, task_id: str) -> None:
        """Decide what this person can decide, and tell of the rest, once."""
        for waiting in await self._desk.of_task(task_id):
            is_approval = waiting["kind"] == "approval"
            if is_approval and sys.stdin.isatty() and sys.stderr.isatty():
                tell(f"loopworker: {one_line(waiting['tool'])} {arguments_line(waiting)}")
                said = await _line("loopworker: allow this call? [y/N] ")
                await self._decide(task_id, waiting, said.strip().lower() in _YES, "at a terminal")
            elif is_approval and not self._is_shared:
                tell(f"loopworker: denied: {one_line(waiting['tool'])} needs an approval")
                await self._decide(task_id, waiting, False, "nobody is there to be asked")
            elif waiting["call"] not in self._told:
                self._told.add(waiting["call"])
                tell(f"loopworker: {told_of(waiting, task_id)}")

    async def _decide(
        self, task_id: str, waiting: dict[str, Any], approved: bool, why: str
    ) -> None:
        decision = Decision(
            approved=approved,
            by=myself(),
            why=why,
            call_id=waiting["call"],
            digest=waiting["digest"],
        )
        try:
            await self._desk.decide(task_id, decision)
        except NotAccepted as refused:  # somebody else was quicker, or it took too long
            tell(f"loopworker: {refused}")


async def _line(prompt: str) -> str:
    """Read a line of the terminal; Ctrl-C ends the waiting, which it would not in a thread."""
    loop = asyncio.get_running_loop()
    read: asyncio.Future[str] = loop.create_future()
    sys.stderr.write(prompt)
    sys.stderr.flush()

    def readable() -> None:
        if not read.done():
            read.set_result(sys.stdin.readline())

    loop.add_reader(sys.stdin.fileno(), readable)
    try:
        return await read
    finally:
        loop.remove_reader(sys.stdin.fileno())
