"""`make soak`: an hour of work and random kills, after which nothing has grown and nothing was lost.

One worker lives through it and is weighed; another is killed with SIGKILL at random moments and
started again. Tasks with effects come at a steady pace, and their results are fetched from the reply
queue. Exit code 1 when a promise was broken or something grows.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import contextlib
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.matrix.engines import ENGINES
from tests.matrix.world import PLAN, World, quietly, world
from tests.soak.weights import Weight, grown, weigh

RETENTION_SECONDS = 10
PER_SECOND = 5.0
WAITING_MAX = 100  # tasks that may be on their way before the pace slows down
KILLS_EVERY = (5.0, 25.0)  # seconds, evenly spread
SAMPLES = 30
LAST_SECONDS = 60.0


class Soak:
    """One soaking: who works, what was handed in, what came back."""

    def __init__(self, here: World, chance: random.Random) -> None:
        self.site = here.site
        self.here = here
        self.chance = chance
        self.handed_in = 0
        self.kills = 0
        self.results: collections.Counter[str] = collections.Counter()
        self.weights: list[Weight] = []
        self.is_fed = False
        self.all_back = asyncio.Event()

    async def run(self, seconds: float) -> list[str]:
        """Soak for so long; returns what is wrong, in words."""
        settings = {"CONCURRENCY": "8", "LOG_LEVEL": "error", "RETENTION": str(RETENTION_SECONDS)}
        settings["WORKER__PRUNE_SECONDS"] = "2"
        self.here.started = settings
        steady = await self.here.worker()
        ends = time.monotonic() + seconds
        async with asyncio.TaskGroup() as group:
            fetching = group.create_task(self._fetch())
            group.create_task(self._kill(ends))
            group.create_task(self._weigh(steady.popen.pid, ends))
            await self._hand_in(ends)
            self.is_fed = True
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LAST_SECONDS):
                    await self.all_back.wait()
            fetching.cancel()
        wrong = [] if steady.alive else [f"the steady worker ended with {steady.popen.returncode}"]
        return wrong + self._promises() + grown(self.weights)

    async def _hand_in(self, ends: float) -> None:
        while time.monotonic() < ends:
            if self.handed_in - len(self.results) < WAITING_MAX:
                name = f"soak-{self.handed_in}"
                await self.site.submit(name, PLAN, reply_to="queue:results")
                self.handed_in += 1
            await asyncio.sleep(1 / PER_SECOND)

    async def _fetch(self) -> None:
        queue = self.site.queue.sibling("results")
        while True:
            for lease in await queue.claim(
                owner="soak", lease_seconds=60, wait_seconds=0.5, limit=100
            ):
                self.results[lease.id] += 1
                await queue.ack(lease)
            if self.is_fed and len(self.results) == self.handed_in:
                self.all_back.set()

    async def _kill(self, ends: float) -> None:
        while (pause := self.chance.uniform(*KILLS_EVERY)) < ends - time.monotonic():
            victim = self.here.begin()
            await asyncio.sleep(pause)
            victim.kill()
            victim.log.unlink()
            self.site.processes.remove(victim)
            self.kills += 1

    async def _weigh(self, pid: int, ends: float) -> None:
        step = (ends - time.monotonic()) / SAMPLES
        for _ in range(SAMPLES):
            await asyncio.sleep(step)
            self.site.model.messages.clear()  # what the model keeps is no worker's
            depth = await quietly(self.site.queue.depth)
            self.weights.append(weigh(pid, self.site.folder))
            print(
                f"{self.handed_in} handed in, {len(self.results)} answered, {self.kills} killed;"
                f" {self.weights[-1]}; {depth}",
                flush=True,
            )

    def _promises(self) -> list[str]:
        made = collections.Counter(self.site.keys("book"))
        twice = [key for key, times in made.items() if times > 1]
        lost = self.handed_in - len(self.results)
        return [
            *([f"{lost} of {self.handed_in} tasks have no result"] if lost else []),
            *([f"{len(twice)} effects were made twice: {twice[:5]}"] if twice else []),
        ]


async def soak(engine: str, seconds: float, seed: int) -> list[str]:
    """Soak one engine."""
    with (
        tempfile.TemporaryDirectory(prefix="soak-") as made,
        ENGINES[engine](Path(made)) as setup,
    ):
        folder = Path(made) / "site"
        folder.mkdir()
        async with world(setup, folder) as here:
            here_soak = Soak(here, random.Random(seed))
            wrong = await here_soak.run(seconds)
            print(f"{setup.name}: {here_soak.handed_in} tasks, {here_soak.kills} kills")
            return wrong


def main() -> int:
    """Read the options, soak, say what is wrong."""
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--engine", choices=tuple(ENGINES), default="sqlite")
    parser.add_argument("--seed", type=int, default=1, help="of the moments of the kills")
    options: Any = parser.parse_args()
    wrong = asyncio.run(soak(options.engine, options.minutes * 60, options.seed))
    print("\n".join(wrong) or "nothing was lost, made twice, or grew")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
