"""The terminal is closed, or SIGTERM comes: whatever the command was, it ends and cleans up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.system.processes import ROOT, Process, counts, until

IN_TERMINAL = 'exec "$@" <>"$TERMINAL" 1>&0 2>&1'  # the first terminal a session opens is its own


class Terminal:
    """A terminal with one command in it; `close` is the click on the x of its window."""

    def __init__(self, *command: str, folder: Path, env: dict[str, str]) -> None:
        self.master, slave = os.openpty()
        self.popen = subprocess.Popen(
            ["sh", "-c", IN_TERMINAL, "sh", *command],
            cwd=folder,
            env={**env, "TERMINAL": os.ttyname(slave), "TERM": "xterm"},
            start_new_session=True,
        )
        os.close(slave)
        os.set_blocking(self.master, False)
        self.said = b""
        self.is_open = True

    def read(self) -> bytes:
        """Everything that the command has written so far."""
        try:
            while piece := os.read(self.master, 65536):
                self.said += piece
        except OSError:
            pass  # nothing more for now, or nothing any more
        return self.said

    def close(self) -> None:
        """Close the terminal: the kernel sends SIGHUP to what runs in it."""
        if self.is_open:
            os.close(self.master)
            self.is_open = False


@pytest.fixture
def terminal():
    """Open a terminal with a command in it."""
    opened = []

    def begin(*command, folder, env):
        opened.append(Terminal(*command, folder=folder, env=env))
        return opened[-1]

    yield begin
    for each in opened:
        each.close()
        each.popen.kill()
        each.popen.wait(10)


async def test_a_worker_drains_when_its_terminal_goes(site, terminal):
    """Its task goes back uncounted and at once, as on SIGTERM; nothing waits for the lease."""
    env = site.environment(QUEUE__LEASE_SECONDS="30", WORKER__DRAIN_SECONDS="0")
    window = terminal(sys.executable, "-m", "worker", "run", folder=site.folder, env=env)
    await site.submit("t", "hold never")
    await site.effect("hold never", within=20)
    window.read()
    window.close()
    code = await Process("worker", window.popen, site.folder / "none").ended(within=10)

    assert code == 0
    assert counts(await site.queue.depth()) == (1, 0, 0, 0, 0)


async def test_a_worker_under_nohup_lives_on(site, terminal):
    """Told to live without a terminal, it does, and answers."""
    command = ("nohup", sys.executable, "-m", "worker", "run")
    window = terminal(*command, folder=site.folder, env=site.environment())
    await site.submit("first", "look a")
    await site.result("first", within=20)
    window.read()
    window.close()
    await site.submit("second", "look b")
    result = await site.result("second", within=10)
    window.popen.send_signal(signal.SIGTERM)
    code = await Process("worker", window.popen, site.folder / "none").ended(within=10)

    assert (result.status, code) == ("completed", 0)


@pytest.mark.parametrize("ending", ["terminal", "SIGTERM"])
async def test_a_demo_leaves_nothing_behind(tmp_path, terminal, ending):
    """In the middle of an act, the demo goes: no folder, no process, exit code of an interrupt."""
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    window = terminal(sys.executable, "-m", "worker", "demo", folder=tmp_path, env=env)
    await until(lambda: b"2 \xc2\xb7" in window.read(), within=20, what="the second act")
    folders = [path.name for path in tmp_path.iterdir()]
    if ending == "terminal":
        window.close()
    else:
        window.popen.send_signal(signal.SIGTERM)
    code = await Process("demo", window.popen, tmp_path / "none").ended(within=20)

    assert [name.startswith("loopworker-demo-") for name in folders] == [True]
    assert code == 130
    assert list(tmp_path.iterdir()) == []


async def test_a_question_that_is_ended_lets_go_of_its_run(site):
    """SIGTERM to `ask`: its run is released, so that the same task could be taken up at once."""
    thinking = []
    site.model.before_reply = lambda asked: thinking.append(asked) or site.ask_for("thought")
    asking = site.start((sys.executable, "-m", "worker", "ask", "t: hold never"))
    await site.effect("hold never", within=20)
    asking.send(signal.SIGTERM)
    code = await asking.ended(within=10)
    (run,) = await site.store.recent()

    assert (code, run.state) == (130, "released")
