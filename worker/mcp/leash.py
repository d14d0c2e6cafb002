"""Ends the servers of a worker that was killed: a small process that holds the other end of a pipe.

A worker that is told to stop ends its servers itself. One that is killed outright cannot; then
the pipe closes, whatever the cause, and this process asks the groups of processes that are left to
go, and kills what stays. It is a script of its own, with the standard library alone, so that it is
there in 20 ms and costs next to nothing. What makes a session of its own escapes it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

GRACE_SECONDS = 1.0  # a server whose input has ended may go by itself, and then at SIGTERM
WAIT_SECONDS = 2.0
_POLL_SECONDS = 0.02


class Leash:
    """The worker's end of the pipe. Started with the first server; a failure to start is silent,
    because servers still see that their input ends."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def hold(self, pid: int) -> None:
        """From now on, end the group of this process when the worker is gone."""
        if self._process is None:
            self._process = _started()
        self._write(f"+{pid}\n")

    def release(self, pid: int) -> None:
        """The group of this process is gone, and its number may be given to another."""
        self._write(f"-{pid}\n")

    def close(self) -> None:
        """Let the process go; waits for it, briefly. What is still held is ended."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        try:
            process.stdin.close()
            process.wait(timeout=WAIT_SECONDS + 2 * GRACE_SECONDS)
        except (OSError, subprocess.TimeoutExpired):
            process.kill()
            process.wait()

    def _write(self, line: str) -> None:
        if self._process is not None and self._process.stdin is not None:
            try:
                self._process.stdin.write(line.encode())
                self._process.stdin.flush()
            except (OSError, ValueError):
                return


def _started() -> subprocess.Popen[bytes] | None:
    try:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={},
            start_new_session=True,  # a signal to the worker's group is none for this one
        )
    except OSError:
        return None


# --- the other side -------------------------------------------------------------------------------


def watch() -> None:
    """Read which groups there are until the worker is gone; then end them."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    held: dict[int, None] = {}
    for line in sys.stdin:
        sign, pid = line[:1], int(line[1:])
        if sign == "+":
            held[pid] = None
        else:
            held.pop(pid, None)
    for step in (0, signal.SIGTERM, signal.SIGKILL):
        _tell_all(held, step)


def _tell_all(held: dict[int, None], number: int) -> None:
    """Send a signal to the groups and wait until they are gone, or for the grace to end."""
    ends = time.monotonic() + GRACE_SECONDS
    for pid in list(held):
        _signal(held, pid, number)
    while held and time.monotonic() < ends and number != signal.SIGKILL:
        time.sleep(_POLL_SECONDS)
        for pid in list(held):
            _signal(held, pid, 0)


def _signal(held: dict[int, None], pid: int, number: int) -> None:
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):
        held.pop(pid, None)


if __name__ == "__main__":
    watch()
