"""What reading a model's reply costs: `python -m tests.bench.reading`. Prints one JSON object.

A whole reply of 2 KB is decoded, normalised and its call's arguments validated; a stream is parsed
and put together, beside nothing but decoding the JSON of its events with the same decoder and with
the standard library's.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import orjson

from tests.bench.gauge import Gauge, plain_tools
from tests.bench.worked import worker_tools
from worker.model.calls import id_source
from worker.model.deltas import ReplyAssembler
from worker.model.normalise import normalise
from worker.model.sse import SseParser
from worker.model.transport import _decoded
from worker.registry import Registry

ROUNDS = 9
WORDS = "The item was found on shelf seven, and it measures forty-two. "


def whole_reply() -> bytes:
    """Return a reply of 2 KB: some text and one call."""
    arguments = json.dumps({"key": "item-1", "region": "EU"})
    call = {"id": "call_1", "type": "function", "function": {"name": "measure"}}
    call["function"]["arguments"] = arguments  # type: ignore[index]
    message = {"role": "assistant", "content": WORDS * 25, "tool_calls": [call]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    usage = {"prompt_tokens": 180, "completion_tokens": 24, "total_tokens": 204}
    return json.dumps(
        {"id": "x", "object": "chat.completion", "model": "m", "choices": [choice], "usage": usage}
    ).encode()


def streamed_reply() -> list[bytes]:
    """Return a stream of 200 events, each as one chunk of the network."""

    def event(delta: dict[str, Any], reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        chunk = {
            "id": "chatcmpl-0123456789",
            "object": "chat.completion.chunk",
            "created": 1767225600,
            "model": "mock-1",
            "system_fingerprint": "fp_0123456789",
            "choices": [choice],
        }
        return b"data: " + orjson.dumps(chunk) + b"\n\n"

    texts = [event({"content": word + " "}) for word in (WORDS * 20).split()[:198]]
    return [event({"role": "assistant", "content": ""}), *texts, event({}, "stop")]


def microseconds(work: Callable[[], Any], repeat: int) -> float:
    """Return the median CPU time of the work."""
    rounds = []
    for _ in range(ROUNDS):
        began = time.process_time()
        for _ in range(repeat):
            work()
        rounds.append((time.process_time() - began) / repeat * 1e6)
    return statistics.median(rounds)


def measure() -> dict[str, float]:
    """Return the figures."""
    registry = Registry(worker_tools(plain_tools(Gauge(warm=0, count=0))))
    offered, new_id, body = registry.offered(None), id_source(), whole_reply()
    chunks = streamed_reply()
    events = [chunk[6:-2] for chunk in chunks]

    def read_whole() -> Any:
        return normalise(_decoded(body, "application/json"), offered, new_id=new_id)

    def read_stream() -> Any:
        parser, assembler = SseParser(), ReplyAssembler()
        for chunk in chunks:
            for event in parser.feed(chunk):
                assembler.feed(event)
        return assembler.finish()

    reply = read_whole()
    assert len(reply.calls) == 1 and reply.calls[0].arguments, reply
    streamed = microseconds(read_stream, 50)
    return {
        "reply_bytes": len(body),
        "whole_us": microseconds(read_whole, 500),
        "stream_us": streamed,
        "stream_events": len(chunks),
        "stream_vs_json": streamed / microseconds(lambda: [json.loads(e) for e in events], 50),
        "stream_vs_orjson": streamed / microseconds(lambda: [orjson.loads(e) for e in events], 50),
    }


def main() -> None:
    """Measure and print."""
    print(json.dumps(measure()))


if __name__ == "__main__":
    main()
