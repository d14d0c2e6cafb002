"""The scripted model: steps in order, requests kept."""

from __future__ import annotations

import pytest

from worker.core.errors import ModelError
from worker.core.messages import Message, ReplyKind
from worker.model.port import ModelRequest
from worker.model.scripted import ScriptedModel, answer, calls

ASK = ModelRequest(messages=(Message({"role": "user", "content": "hi"}),))


async def test_steps_are_taken_in_order():
    """Replies, texts, errors and functions, each once."""

    async def later(request: ModelRequest) -> str:
        return request.messages[0].body["content"] + "!"

    failure = ModelError("down", status="model_unavailable", transient=True)
    model = ScriptedModel(calls(("look", {"at": 1})), failure, "text", later, lambda _: answer("f"))
    first = await model.reply(ASK)
    with pytest.raises(ModelError) as caught:
        await model.reply(ASK)
    texts = [(await model.reply(ASK)).text for _ in range(3)]

    assert (first.kind, first.calls[0].name, first.calls[0].id) == (ReplyKind.CALLS, "look", "c1")
    assert first.message["tool_calls"][0]["function"]["arguments"] == '{"at": 1}'
    assert caught.value is failure
    assert texts == ["text", "hi!", "f"]
    assert (len(model.requests), model.steps_left) == (5, 0)


async def test_end_of_the_script_is_an_error_unless_said_otherwise():
    """A run that asks more often than expected is noticed."""
    with pytest.raises(ModelError, match="script is over"):
        await ScriptedModel().reply(ASK)
    endless = ScriptedModel(otherwise="again")

    assert [(await endless.reply(ASK)).text for _ in range(3)] == ["again"] * 3


async def test_empty_text_is_an_empty_reply():
    """The script can play a model that says nothing."""
    assert (await ScriptedModel("").reply(ASK)).kind is ReplyKind.EMPTY
