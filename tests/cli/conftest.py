"""Commands run in this process, in an empty folder, with a clean environment."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.web.house import House, leave_at_once
from worker.cli import main


@dataclass(frozen=True)
class Ran:
    """What a command left."""

    code: int
    out: str
    err: str


@pytest.fixture
def cli(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Ran]:
    """Run a command: `cli("submit", "x")`; argparse's own exits become codes."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOOPWORKER_QUEUE_URL", f"sqlite:///{tmp_path / 'cli.db'}")

    def run(*words: str) -> Ran:
        capsys.readouterr()
        try:
            code = main(words)
        except SystemExit as exit:
            code = int(exit.code or 0)
        seen = capsys.readouterr()
        return Ran(code, seen.out, seen.err)

    return run


@pytest.fixture
def house(monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    """A worker's API in a thread of its own, at LOOPWORKER_HTTP."""
    leave_at_once(monkeypatch)
    started, leave = threading.Event(), []
    house = House()

    async def serve() -> None:
        await house.server.start()
        over = asyncio.Event()
        leave.append((asyncio.get_running_loop(), over))
        started.set()
        await over.wait()
        await house.server.stop()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert started.wait(10)
    monkeypatch.setenv("LOOPWORKER_HTTP", f"127.0.0.1:{house.server.port}")
    yield house
    loop, over = leave[0]
    loop.call_soon_threadsafe(over.set)
    thread.join(10)


@pytest.fixture
def plain(monkeypatch):
    """A machine without uvloop."""
    monkeypatch.setitem(sys.modules, "uvloop", None)
