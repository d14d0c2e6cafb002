"""A conversation that was damaged in the file: what is sound of it goes on, and it is said."""

from __future__ import annotations

import json
import sqlite3

import pytest

from worker import Task, tool
from worker.core.history import is_paired
from worker.model.scripted import answer, calls
from worker.telemetry.signals import StoreCall


@tool
async def price(symbol: str) -> str:
    """Latest price of a ticker.

    Args:
        symbol: The ticker.
    """
    return f"{symbol} is 12.50"


def rewrite(path, change):
    """Let another hand write into the turns of the file."""
    with sqlite3.connect(path) as file:
        for number, body in file.execute("select number, body from session_turn").fetchall():
            values = (change(bytes(body)), number)
            file.execute("update session_turn set body = ? where number = ?", values)
    file.close()


def unanswered(body):
    """Take the results out of a turn."""
    return json.dumps([m for m in json.loads(body) if m["role"] != "tool"]).encode()


async def two_turns(start, ask, tmp_path, change):
    """Answer a question, damage what is stored of it, and ask another one."""
    path = tmp_path / "t.db"
    script = [calls(("price", {"symbol": "ACME"})), answer("it is 12.50"), answer("fine")]
    async with start(*script, tools=[price], queue_url=f"sqlite:///{path}") as worker:
        await ask(worker, Task("t1", "price of ACME?", session_id="s"))
        rewrite(path, change)
        result = await ask(worker, Task("t2", "and now?", session_id="s"))
        loads = [
            call.error
            for call in worker.ears.of(StoreCall, "settled")
            if call.name == "load_session"
        ]
        sent = [message.body for message in worker.model.requests[-1].messages][1:]
        kept = await worker.store.conversation("s")
    assert is_paired(sent)
    return result, sent, loads, kept


async def test_an_unanswered_call_is_told_as_interrupted(start, ask, tmp_path):
    """It gets a synthetic result; nobody takes the call for one that has been answered."""
    result, sent, loads, _ = await two_turns(start, ask, tmp_path, unanswered)

    assert (result.status, result.answer) == ("completed", "fine")
    assert [m["role"] for m in sent] == ["user", "assistant", "tool", "assistant", "user"]
    assert "interrupted" in sent[2]["content"]
    assert loads == [None, None]


@pytest.mark.parametrize("body", [b"", b"\xff\x00", b"{", b"null", b'{"role": "user"}', b"[[["])
async def test_a_turn_that_cannot_be_read_is_left_out(start, ask, tmp_path, body):
    """The task begins without it, the loss is told, and the next turn is kept as ever."""
    result, sent, loads, kept = await two_turns(start, ask, tmp_path, lambda _: body)

    assert (result.status, sent) == ("completed", [{"role": "user", "content": "and now?"}])
    assert loads == [None, "turns of the session that cannot be read: 1"]
    assert [m["content"] for m in kept] == ["and now?", "fine"]


async def test_messages_of_another_hand_are_no_danger(start, ask, tmp_path):
    """Whatever stands in a turn: what cannot be sent is left out, and the run begins."""
    junk = [7, None, {"role": 1}, {"role": "assistant", "tool_calls": [{"id": []}, 3, {}]}]
    changed = json.dumps([*junk, {"role": "user", "content": "hello"}, *junk]).encode()
    result, sent, _, _ = await two_turns(start, ask, tmp_path, lambda _: changed)

    assert result.status == "completed"
    assert [m["content"] for m in sent] == ["hello", "and now?"]


async def test_a_task_without_tools_is_told_no_calls(start, ask):
    """A conversation with calls is refused by some servers when the request has no tools."""
    script = [calls(("price", {"symbol": "ACME"})), answer("it is 12.50"), answer("fine")]
    async with start(*script, tools=[price]) as worker:
        await ask(worker, Task("t1", "price of ACME?", session_id="s"))
        await ask(worker, Task("t2", "and now?", session_id="s", tools=()))
        sent = [message.body for message in worker.model.requests[-1].messages][1:]

    assert [(m["role"], m["content"]) for m in sent] == [
        ("user", "price of ACME?"),
        ("assistant", "it is 12.50"),
        ("user", "and now?"),
    ]
