"""A conversation that moves to another endpoint."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.model.chainworld import DOWN, LOOK, asks, chain_of, conversation, says
from worker.core.messages import MINTED_BY, Message
from worker.model.foreign import NO_SIGNATURE, portable, portable_id, with_origin
from worker.model.quirks import Quirks, told_by
from worker.model.wire import encode_message

LONG_ID = "call_" + "x" * 78
KIMI_ID = "functions.look:0"


def turn(**more):
    """An assistant message with two calls and everything a vendor adds."""
    call = {"type": "function", "function": {"name": "look", "arguments": "{}"}}
    signed = {"google": {"thought_signature": "c2lnbg=="}}
    return {
        "role": "assistant",
        "content": "<think>hm</think>let me look",
        "reasoning_content": "hm",
        "reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}],
        "tool_calls": [{**call, "id": LONG_ID, "extra_content": signed}, {**call, "id": KIMI_ID}],
        **more,
    }


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_a_history_of_long_ids_passes_a_strict_server(stream):
    """Ids are shortened, pairs still match, and what only the first server knows stays away."""
    more = {"reasoning_content": "hm"}
    asked = {**asks(LONG_ID, KIMI_ID, stream=stream, **more), "repeat": False}
    async with chain_of([asked, DOWN], [says("seen", stream=stream)], stream=stream) as world:
        first = await world.ask(LOOK)
        reply = await world.ask(replace(LOOK, messages=conversation(first, "a", "b")))

        assert [call.id for call in first.calls] == [LONG_ID, KIMI_ID]
        assert reply.text == "seen"
        kept, moved = world.servers[0].requests[1], world.servers[1].requests[0]
        assert kept["messages"][1]["reasoning_content"] == "hm"
        assert [m["tool_call_id"] for m in kept["messages"][2:]] == [LONG_ID, KIMI_ID]
        ids = [call["id"] for call in moved["messages"][1]["tool_calls"]]
        assert ids == [portable_id(LONG_ID), portable_id(KIMI_ID)]
        assert [m["tool_call_id"] for m in moved["messages"][2:]] == ids
        assert moved["messages"][1].keys() == {"role", "content", "tool_calls"}
        world.servers[0].requests.clear()  # its own long ids are for itself alone
        world.check_strictly()


async def test_each_turn_goes_back_to_its_maker_untouched():
    """A turn of each model in one history: ids and fields are verbatim for the one who made it."""
    scripts = ([{**asks(LONG_ID), "repeat": False}, DOWN], [asks(KIMI_ID, reasoning_details=[1])])
    async with chain_of(*scripts) as world:
        first = await world.ask(LOOK)
        messages = conversation(first, "a")
        second = await world.ask(replace(LOOK, messages=messages))
        messages += conversation(second, "b")[1:]
        await world.fail(replace(LOOK, messages=messages))

        ours, theirs = world.servers[0].requests[-1], world.servers[1].requests[-1]
        assert [m["tool_calls"][0]["id"] for m in ours["messages"][1::2]] == [
            LONG_ID,
            portable_id(KIMI_ID),
        ]
        assert [m["tool_calls"][0]["id"] for m in theirs["messages"][1::2]] == [
            portable_id(LONG_ID),
            KIMI_ID,
        ]
        assert "reasoning_details" not in ours["messages"][3]
        assert theirs["messages"][3]["reasoning_details"] == [1]
        assert not any(MINTED_BY in m for r in (ours, theirs) for m in r["messages"])


def test_only_text_and_calls_are_portable():
    """Thoughts, signatures and vendors' fields stay behind."""
    moved = portable(turn(**{MINTED_BY: "a"}), Quirks())

    assert moved["content"] == "let me look"
    assert moved.keys() == {"role", "content", "tool_calls"}
    assert [call.keys() for call in moved["tool_calls"]] == [{"id", "type", "function"}] * 2


@pytest.mark.parametrize(
    ("content", "calls", "expected"),
    [
        ([{"type": "thinking", "thinking": []}, {"type": "text", "text": "hi"}], [], "hi"),
        ("<think>all of it</think>", [], ""),
        ("<think>all of it</think>", turn()["tool_calls"], None),
        (None, turn()["tool_calls"], None),
    ],
)
def test_content_becomes_text(content, calls, expected):
    """Lists of parts are joined; null stands only beside calls."""
    body = {"role": "assistant", "content": content, "tool_calls": calls}

    assert portable(body, Quirks())["content"] == expected


def test_a_message_of_unknown_origin_is_taken_as_it_is():
    """An older journal, or a history that a person wrote, says nothing of its maker."""
    messages = [Message(turn()), Message({"role": "tool", "tool_call_id": LONG_ID, "content": "x"})]

    assert [foreign for _, foreign in with_origin(messages, "m@here")] == [False, False]


def test_results_belong_to_their_turn():
    """Foreign until the next assistant or user message says otherwise."""
    user = {"role": "user", "content": "hi"}
    result = {"role": "tool", "tool_call_id": LONG_ID, "content": "x"}
    bodies = [user, turn(**{MINTED_BY: "a"}), result, turn(**{MINTED_BY: "b"}), result, user]
    bodies += [turn(**{MINTED_BY: "a"}), user]

    found = [foreign for _, foreign in with_origin(map(Message, bodies), "b")]

    assert found == [False, True, True, False, False, False, True, False]


def test_of_parallel_calls_only_the_first_is_signed():
    """As the server that wants signatures signs them itself."""
    first, second = portable(turn(), Quirks("dummy_signature"))["tool_calls"]

    assert first["extra_content"]["google"]["thought_signature"] == NO_SIGNATURE
    assert "extra_content" not in second


@pytest.mark.parametrize(
    ("refusal", "quirk", "check"),
    [
        (
            "Function call is missing a thought_signature in functionCall parts. This is required",
            "dummy_signature",
            lambda m: (
                m["tool_calls"][0]["extra_content"]["google"]["thought_signature"] == NO_SIGNATURE
            ),
        ),
        (
            "The `reasoning_content` in the thinking mode must be passed back to the API.",
            "empty_reasoning",
            lambda m: m["reasoning_content"] == "",
        ),
        (
            "Missing `reasoning_content` field in the assistant message at message index 2",
            "empty_reasoning",
            lambda m: m["reasoning_content"] == "",
        ),
    ],
)
async def test_what_a_server_misses_in_foreign_turns_is_learned(refusal, quirk, check):
    """The documented stand-in is sent at once and from then on; the call does not fail."""
    objects = {"status": 400, "body": {"error": {"message": refusal}}}
    scripts = ([{**asks(LONG_ID), "repeat": False}, DOWN], [objects, says("seen")])
    async with chain_of(*scripts) as world:
        first = await world.ask(LOOK)
        reply = await world.ask(replace(LOOK, messages=conversation(first, "a")))

        assert told_by(refusal) == quirk
        assert reply.text == "seen"
        assert check(world.servers[1].requests[1]["messages"][1])
        assert world.chain.links[1].model.quirks.as_data() == [quirk]


def test_a_foreign_message_is_encoded_once_for_its_reader():
    """Until the reader learns something new; for the maker it keeps its own form."""
    message, quirks = Message(turn()), Quirks()
    first = encode_message(message, quirks, foreign=True)

    assert encode_message(message, quirks, foreign=True) is first
    assert LONG_ID.encode() in encode_message(message, Quirks())
    assert b'"reasoning_content":""' in encode_message(
        message, Quirks("empty_reasoning"), foreign=True
    )
