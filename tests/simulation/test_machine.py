"""Processes on the simulated machine: stopped, blocked and killed at any await."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from tests.simulation.machine import MachineLoop, Process
from tests.simulation.pairing import what_is_unpaired


def on_machine(test: Callable[[MachineLoop], Coroutine[Any, Any, None]]) -> None:
    with asyncio.Runner(loop_factory=MachineLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, MachineLoop)
        runner.run(test(loop))


async def tick(seen: list[float], loop: MachineLoop) -> None:
    while True:
        await asyncio.sleep(1.0)
        seen.append(loop.time())


def test_a_stopped_process_does_nothing_until_it_goes_on() -> None:
    """Its timers pass unheard, like those of a process that got SIGSTOP; then it goes on."""

    async def story(loop: MachineLoop) -> None:
        process, seen = Process("w", loop), list[float]()
        process.start(tick(seen, loop))
        await asyncio.sleep(2.5)
        process.stop()
        await asyncio.sleep(10.0)

        assert seen == [1.0, 2.0]
        assert process.silence() == 10.0

        process.go_on()
        await asyncio.sleep(1.1)

        assert seen == [1.0, 2.0, 12.5, 13.5]
        process.kill()

    on_machine(story)


def test_the_heartbeat_of_a_blocked_process_goes_on() -> None:
    """What blocks the event loop does not block the strand beside it."""

    async def story(loop: MachineLoop) -> None:
        process, beats, seen = Process("w", loop), list[float](), list[float]()

        async def main() -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(process.beside(lambda: tick(beats, loop), name="heartbeat"))
                group.create_task(tick(seen, loop))

        process.start(main())
        await asyncio.sleep(1.5)
        process.stop(heartbeat=False)
        await asyncio.sleep(2.0)

        assert (seen, beats) == ([1.0], [1.0, 2.0, 3.0])
        process.kill()

    on_machine(story)


def test_a_killed_process_ends_with_all_that_it_has_begun() -> None:
    """Killed while it is stopped, too: nothing of it is left on the loop."""

    async def story(loop: MachineLoop) -> None:
        process, seen = Process("w", loop), list[float]()

        async def main() -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(process.beside(lambda: tick(seen, loop), name="heartbeat"))
                group.create_task(tick(seen, loop))

        life = process.start(main())
        await asyncio.sleep(0.5)
        process.stop()
        process.kill()
        await asyncio.wait([life], timeout=1.0)

        assert life.cancelled()
        assert (process.is_dead, seen) == (True, [])

    on_machine(story)


def test_unpaired_conversations_are_recognised() -> None:
    """A call without its answer, an answer without its call, another order: each is found."""
    call = {"role": "assistant", "tool_calls": [{"id": "a"}, {"id": "b"}]}
    a, b = ({"role": "tool", "tool_call_id": each} for each in "ab")
    user = {"role": "user", "content": "…"}

    assert what_is_unpaired([user, call, a, b, user]) is None
    for wrong in ([call], [call, a], [call, b, a], [a], [call, a, b, b], [call, a, user, b]):
        assert what_is_unpaired(wrong) is not None
