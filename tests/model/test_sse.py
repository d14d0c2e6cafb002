"""Server-sent events from bytes (models.md 2.6)."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.core.errors import ModelError
from worker.model.sse import SseParser


def events(*chunks: bytes) -> list[str]:
    """Feed the chunks; return the data of all events."""
    parser = SseParser()
    found = [data for chunk in chunks for data in parser.feed(chunk)]
    return found + parser.close()


@pytest.mark.parametrize(
    ("stream", "data"),
    [
        (b'data: {"a":1}\n\n', ['{"a":1}']),
        (b'data:{"a":1}\r\n\r\n', ['{"a":1}']),  # G20
        (b'data: {"a":1}\r\rdata: [DONE]\r\r', ['{"a":1}', "[DONE]"]),
        (b'data: {"a":\ndata: 1}\n\n', ['{"a":\n1}']),
        (b'data: {"a":\r\ndata: 1}\r\n\r\n', ['{"a":\n1}']),
        (b'data: {"a":\rdata: 1}\n\n', ['{"a":\n1}']),
        (b": ping\n\n:\n\nevent: x\nid: 7\nretry: 10\n\ndata:\n\ndata\n\n", []),
        (b"data: : keepalive\n\n", []),
        (b"data:    \n\n", []),
        (b"\xef\xbb\xbfdata: x\n\n", ["x"]),
        (b"data: x", ["x"]),
        (b"data: x\n", ["x"]),
        (b"data:  x\n\n", [" x"]),
        (b"database: x\n\n", []),
        (
            'data: {"t":"\u2028\u0085\x0c\x1c\x0b"}\n\n'.encode(),
            ['{"t":"\u2028\u0085\x0c\x1c\x0b"}'],
        ),
        (b"data: \xff\n\n", ["\ufffd"]),
        (b"", []),
    ],
)
def test_events(stream, data):
    """Lines end at \\n, \\r and \\r\\n only; only data counts. G20 and G21."""
    assert events(stream) == data
    assert events(*[stream[at : at + 1] for at in range(len(stream))]) == data


def test_event_in_two_pieces_of_which_the_second_looks_whole():
    """A piece that looks like an event of its own may be the rest of another."""
    assert events(b"data: [\n", b"data: {}\n\n") == ["[\n{}"]
    assert events(b"event: ", b"data: {}\n\n", b"data: {}\n\n") == ["{}"]


STREAM = (
    ': hi\r\n\r\ndata: {"n":"你好 🦀"}\n\ndata: {"x":\r\ndata: 1}\r\n\r\n'
    "event: y\rdata: z\r\rdata: {}\n\ndata: [DONE]\n\n"
).encode()


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_fed_whole_or_in_any_pieces(cuts):
    """However the network cuts a stream, the events are the same."""
    edges = [0, *sorted(cuts), len(STREAM)]
    pieces = [STREAM[one:other] for one, other in pairwise(edges)]

    assert events(*pieces) == events(STREAM)


@given(st.lists(st.binary(max_size=30) | st.sampled_from([b"data: {", b"\n\n", b"\r", b"data:"])))
def test_garbage_in_any_pieces(chunks):
    """Garbage gives the same events whole and in pieces, and raises nothing."""
    assert events(*chunks) == events(b"".join(chunks))


@pytest.mark.parametrize("chunk", [b"x" * 100, b"data: x\n" * 20, b"data: " + b"x" * 100 + b"\n\n"])
def test_size_of_an_event_is_bounded(chunk):
    """A server cannot fill the memory with one event."""
    parser = SseParser(max_event_bytes=64)
    with pytest.raises(ModelError, match="64 bytes"):
        for _ in range(3):
            parser.feed(chunk)


def test_many_small_events_are_no_large_one():
    """The bound is on one event, not on the stream."""
    parser = SseParser(max_event_bytes=64)

    assert sum(len(parser.feed(b"data: x\n\n")) for _ in range(100)) == 100
