"""The log lines of several processes on one output, each of them whole.

A pipe takes up to 4,096 bytes in one piece. Processes that wrote longer lines to the same pipe
themselves would cut into each other's, and a log of JSON lines would have some that are none.
"""

from __future__ import annotations

import os
import threading

CHUNK_BYTES = 65_536
LINE_BYTES_MAX = 4 * 1024 * 1024  # a "line" beyond it is passed on in pieces


class LinePump:
    """Passes what comes out of pipes on to one descriptor, line by line.

    A thread for each pipe: one that hangs, because nobody reads the output, keeps back its own
    process's lines and nothing else. Where the output is gone for good, lines are read and dropped:
    a worker must not stand still because nobody listens.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._is_gone = False

    def pump(self, pipe: int, *, name: str) -> None:
        """Pass on what comes out of a pipe until its end, in a thread; closes the pipe."""
        thread = threading.Thread(target=self._pass_on, args=(pipe,), name=name, daemon=True)
        self._threads = [each for each in self._threads if each.is_alive()] + [thread]
        thread.start()

    def write(self, lines: bytes) -> None:
        """Write whole lines; waits for a reader who is slow."""
        with self._lock:
            rest = memoryview(lines)
            while rest and not self._is_gone:
                try:
                    rest = rest[os.write(self._descriptor, rest) :]
                except OSError:
                    self._is_gone = True

    def close(self, seconds: float) -> None:
        """Wait until the last lines are out, within the budget."""
        for thread in self._threads:
            thread.join(seconds)

    def _pass_on(self, pipe: int) -> None:
        with open(pipe, "rb", buffering=0) as source:
            kept = b""
            while chunk := source.read(CHUNK_BYTES):
                kept += chunk
                cut = kept.rfind(b"\n") + 1
                if len(kept) - cut > LINE_BYTES_MAX:
                    cut = len(kept)
                if cut:
                    self.write(kept[:cut])
                    kept = kept[cut:]
            if kept:  # the last words of a process that was killed
                self.write(kept + b"\n")
