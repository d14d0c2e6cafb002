"""Lines of several processes come out whole, and nobody waits for a reader who has gone."""

from __future__ import annotations

import os
import threading

import pytest

from worker.supervising import lines
from worker.supervising.lines import LinePump


@pytest.fixture
def out():
    """A pipe to write to; what has been read from it by the end."""
    reading, writing = os.pipe()
    yield reading, writing
    os.close(reading)


def pumped(pump: LinePump, *writers: list[bytes]) -> None:
    """Let each writer write its pieces into a pipe of its own, at the same time."""
    pipes = [os.pipe() for _ in writers]
    for reading, _ in pipes:
        pump.pump(reading, name="lines")

    def write(pieces: list[bytes], pipe: int) -> None:
        for piece in pieces:
            os.write(pipe, piece)
        os.close(pipe)

    threads = [
        threading.Thread(target=write, args=(pieces, pipe))
        for pieces, (_, pipe) in zip(writers, pipes, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    pump.close(10)


def test_long_lines_of_several_are_not_cut_into_each_other(out):
    """Lines longer than a pipe takes at once, in pieces that end anywhere, come out whole."""
    reading, writing = out
    read: list[bytes] = []
    reader = threading.Thread(
        target=lambda: read.extend(iter(lambda: os.read(reading, 65_536), b""))
    )
    reader.start()
    wanted = [bytes([65 + n]) * 9_000 for n in range(3)]
    pieces = [[w[:5_000], w[5_000:] + b"\n" + w[:100], w[100:] + b"\n"] * 20 for w in wanted]

    pumped(LinePump(writing), *pieces)
    os.close(writing)
    reader.join(10)

    found = b"".join(read).splitlines()
    assert sorted(set(found)) == wanted
    assert len(found) == 3 * 40


def test_last_words_without_an_end_get_one(out):
    """What a killed process had begun to write does not become part of the next line."""
    reading, writing = out
    pumped(LinePump(writing), [b"one\ntw"])

    assert os.read(reading, 100) == b"one\ntw\n"
    os.close(writing)


def test_a_line_without_end_is_bounded(out, monkeypatch):
    """Megabytes without a line end are passed on in pieces, not kept."""
    monkeypatch.setattr(lines, "LINE_BYTES_MAX", 10)
    reading, writing = out
    pumped(LinePump(writing), [b"x" * 11])

    assert os.read(reading, 100) == b"x" * 11
    os.close(writing)


def test_an_output_that_is_gone_holds_nobody_up():
    """Where nobody reads any more, processes can still write."""
    reading, writing = os.pipe()
    os.close(reading)
    pump = LinePump(writing)

    pumped(pump, [b"one\n", b"two\n"])
    pump.write(b"three\n")
    os.close(writing)
