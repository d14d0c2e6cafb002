"""How much of a conversation is sent and kept: its bound, its time, the window of the model."""

from __future__ import annotations

import pytest

from worker import Task
from worker.core.errors import ModelError
from worker.core.history import is_paired, tokens_of
from worker.core.limits import Status
from worker.model.scripted import ScriptedModel


@pytest.fixture(params=["memory://", "sqlite"])
def engine(request, tmp_path):
    """Where tasks and conversations are kept."""
    return f"sqlite:///{tmp_path}/t.db" if request.param == "sqlite" else request.param


def said(messages):
    """The texts of questions and answers."""
    return [m["content"] for m in messages if m["role"] in ("user", "assistant") and m["content"]]


async def test_a_conversation_is_cut_to_its_bound(start, ask):
    """What is sent stays within the estimate of tokens; old turns leave, the newest stay."""
    settings = {"max_history_tokens": 400, "session": {"result_chars": 100}}
    async with start(otherwise=lambda request: "word " * 50, **settings) as worker:
        for number in range(12):
            await ask(worker, Task(f"t{number}", f"question {number}", session_id="s"))
        sent = [message.body for message in worker.model.requests[-1].messages]
        asked = [m["content"] for m in sent if m["role"] == "user"]
        kept = await worker.store.conversation("s")

        assert asked == [f"question {number}" for number in range(7, 12)]
        assert 8 <= len(kept) <= 24


async def test_a_session_is_forgotten_after_its_time(start, ask):
    """Without a turn for so long, the next one begins anew."""
    async with start(otherwise="fine", session={"ttl_seconds": 1.0}) as worker:
        await ask(worker, Task("t1", "first", session_id="s"))
        clock = worker.store.inner.base.clock
        worker.store.inner.base.clock = lambda: clock() + 1.5
        await ask(worker, Task("t2", "second", session_id="s"))

        assert len(worker.model.requests[-1].messages) == 2
        assert isinstance(worker.model, ScriptedModel)


class Window:
    """A model that refuses what is longer than its window, as servers do."""

    def __init__(self, tokens):
        self.tokens = tokens
        self.refused = 0
        self.told = []

    async def __call__(self, request):
        sent = [message.body for message in request.messages[1:]]
        assert is_paired(sent)
        if sum(map(tokens_of, sent)) > self.tokens:
            self.refused += 1
            raise ModelError("maximum context length", status=Status.CONTEXT_OVERFLOW)
        self.told.append(said(sent))
        return "word " * 50


async def test_a_session_outgrows_the_window_of_its_model(start, ask, engine):
    """No turn is lost for that: what was said first leaves, and stays away for the next turns."""
    window = Window(400)
    names = [f"question {number}" for number in range(20)]
    async with start(otherwise=window, queue_url=engine) as worker:
        outcomes = [await ask(worker, Task(f"t{n}", n, session_id="s")) for n in names]
        events = [(await worker.store.view(f"t{n}")).events for n in names]

    assert [result.status for result in outcomes] == ["completed"] * 20
    assert [told[-1] for told in window.told] == names
    assert all(len(told) > 1 for told in window.told[1:])
    cuts = sum(event["kind"] == "history_cut" for view in events for event in view)
    assert cuts == window.refused <= 10


async def test_a_question_that_is_too_long_by_itself_leaves_no_trace(start, ask):
    """Its run ends as it would without a session, and the next question has the conversation."""
    window = Window(400)
    async with start(otherwise=window) as worker:
        await ask(worker, Task("t1", "first", session_id="s"))
        long = await ask(worker, Task("t2", "long " * 1_000, session_id="s"))
        await ask(worker, Task("t3", "third", session_id="s"))

    assert long.status == "context_overflow"
    assert [text for text in window.told[-1] if not text.startswith("word")] == ["first", "third"]
