"""What a run leaves in the conversation of its session."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.test_loop import NOW, answer, call, calling, replay, returned, started
from worker.core.conversation import open_turn, turn_of
from worker.core.effects import Finish
from worker.core.ending import result_of
from worker.core.events import Ended, ModelReplied
from worker.core.history import is_paired, tokens_of
from worker.core.limits import Status
from worker.core.messages import Reply, ReplyKind, Source
from worker.core.observing import told_stub, unknown_outcome
from worker.core.sessionbounds import TurnBounds

BOUNDS = TurnBounds()


def turn(*events, finish=None, bounds=BOUNDS, **more):
    """The turn of a run that has seen these events and ended."""
    loop = replay(started(**more), *events)
    effect = finish or loop.next(NOW)
    assert isinstance(effect, Finish)
    return turn_of(loop, result_of(loop, effect, ended_at=NOW), bounds)


def test_a_turn_is_the_question_the_rounds_and_the_answer():
    """Calls and results stand between the two, paired and in order."""
    left = turn(calling(call("a"), call("b")), returned("a", "1"), returned("b", "2"), answer())

    roles = [message["role"] for message in left]
    assert roles == ["user", "assistant", "tool", "tool", "assistant"]
    assert [m["tool_call_id"] for m in left if m["role"] == "tool"] == ["a", "b"]
    assert [m["content"] for m in left if m["role"] != "assistant"] == ["hello", "1", "2"]
    assert left[-1] == {"role": "assistant", "content": "done"}
    assert is_paired(left)


def test_unknown_fields_of_a_calling_message_stay():
    """What a vendor wants back with a call comes back in later turns as well (R6)."""
    asked = calling(call("a"), text="let me see")
    asked.reply.message["reasoning_content"] = "hm"
    left = turn(asked, returned("a"), answer())

    assert left[1] == asked.reply.message


def test_a_long_result_is_cut_in_the_middle():
    """Of a result both ends stay, and what is missing is said."""
    left = turn(calling(call()), returned(content="a" * 9000 + "z" * 9000), answer())

    assert len(left[2]["content"]) == BOUNDS.result_chars
    assert left[2]["content"].startswith("aaa")
    assert left[2]["content"].endswith("zzz")
    assert "truncated" in left[2]["content"]


def test_a_stub_is_no_fact_for_a_later_turn():
    """The value that was missing is told as missing then, not as something to obey or quote."""
    text = told_stub("行情暂不可用", "price", 12.0, language="zh")
    stub = returned(content=text, source=Source.STUB, stub="行情暂不可用", reason="breaker_open")
    left = turn(calling(call()), stub, answer("今天是 99.99"), language="zh", text="股价?")

    assert left[2]["content"] == "行情暂不可用(当时 price 不可用,没有得到数据。)"
    assert "99.99" not in left[-1]["content"]
    assert "行情暂不可用" in left[-1]["content"]


def test_what_a_model_said_beside_its_calls_in_a_degraded_run_leaves():
    """No gate has read it, and a later gate would take it for evidence."""
    stub = returned(content="…", source=Source.STUB, stub="unavailable")
    left = turn(calling(call(), text="it must be 123.45"), stub, answer("unavailable"))

    assert left[1]["content"] is None
    assert "123.45" not in str(left)


def test_an_effect_that_nobody_knows_of_is_kept_on():
    """That a person has to check is still true in the next turn."""
    lost = unknown_outcome(language="en", reason="timeout")
    left = turn(calling(call()), returned(content=lost.content, source=Source.UNKNOWN), answer())

    assert "may have been carried out" in left[2]["content"]
    assert "a person has to check" in left[-1]["content"]


@pytest.mark.parametrize(
    ("status", "text", "expected"),
    [
        (Status.COMPLETED, "done", "done"),
        (Status.NO_INFORMATION, "nothing found", "nothing found"),
        (Status.HANDOFF, "ask a lawyer", "ask a lawyer"),
        (Status.REFUSED, "I will not", "I will not"),
        (Status.MAX_STEPS, "so far", "so far\n[The answer is incomplete: max_steps.]"),
        (Status.INCOMPLETE_LENGTH, "cut", "cut\n[The answer is incomplete: incomplete_length.]"),
        (Status.DEADLINE, "", "[This question got no answer: deadline.]"),
        (Status.CANCELLED, "", "[This question got no answer: cancelled.]"),
        (Status.MODEL_UNAVAILABLE, "", "[This question got no answer: model_unavailable.]"),
    ],
)
def test_an_ending_is_told_as_what_it_was(status, text, expected):
    """An answer stands as it is; one that is cut or missing is called so."""
    left = turn(finish=Finish(status, text, "why"))

    assert left == (
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": expected},
    )


@pytest.mark.parametrize(
    "status",
    [
        Status.BAD_REQUEST,
        Status.CONTENT_FILTERED,
        Status.CONTEXT_OVERFLOW,
        Status.PROTOCOL_ERROR,
        Status.REJECTED,
    ],
)
def test_a_question_that_was_refused_is_not_said_again(status):
    """It would be refused with every later question, until the session is too old."""
    assert turn(finish=Finish(status, "", "no")) == ()


def test_what_was_done_before_a_refusal_stays():
    """Once tools have run, the question was not what the server refused."""
    left = turn(calling(call()), returned(), finish=Finish(Status.CONTEXT_OVERFLOW, "", "too long"))

    assert [message["role"] for message in left] == ["user", "assistant", "tool", "assistant"]


def test_calls_that_never_came_back_are_answered():
    """A run that is ended with calls under way leaves them paired."""
    ended = Ended(NOW, Status.CANCELLED, "cancelled on request")
    left = turn(calling(call("a"), call("b")), returned("a"), ended)

    assert is_paired(left)
    assert "Not run" in left[3]["content"]


def test_a_run_that_waits_leaves_word():
    """Whoever speaks in the session meanwhile is told that something is still open."""
    loop = replay(started(), calling(call()))
    left = open_turn(loop, "approval of price", BOUNDS)

    assert [message["role"] for message in left] == ["user", "assistant"]
    assert left[1]["content"].startswith("[This is not finished yet: approval of price.")


def test_texts_that_are_too_long_are_cut():
    """Question and answer get half of the turn each, in letters or in characters."""
    bounds = TurnBounds(turn_tokens=600)
    for text in ("word " * 4000, "行情" * 4000, "a行" * 4000):
        left = turn(answer(text), text=text, bounds=bounds)

        sizes = [tokens_of(message) for message in left]
        assert all(150 < size <= 300 for size in sizes)


@pytest.mark.parametrize("language", ["zh", "en"])
@pytest.mark.parametrize("turn_tokens", [100, 300, 8_000])
@pytest.mark.parametrize(
    "text", ["a" * 30_000, "行" * 9_000 + "a" * 30_000, "a" * 30_000 + "行情" * 9_000]
)
def test_what_is_left_of_long_texts_stays_within_the_bound(text, turn_tokens, language):
    """Though the ends cost more than the middle, and the note on what was cut is Chinese."""
    bounds = TurnBounds(turn_tokens=turn_tokens)

    left = turn(answer(text), text=text, language=language, bounds=bounds)

    assert turn_tokens * 0.7 < sum(map(tokens_of, left)) <= turn_tokens


texts = st.text(alphabet=st.sampled_from("ab 行🙂é\n"), max_size=200)
rounds = st.lists(st.tuples(st.integers(1, 4), texts, st.sampled_from(Source)), max_size=6)


@given(rounds, texts, st.integers(40, 2000))
def test_every_turn_is_whole_and_bounded(rounds, text, turn_tokens):
    """Whatever happened: it begins with the question, ends with an answer, is paired and fits."""
    events = []
    for number, (count, content, source) in enumerate(rounds):
        calls = [call(f"{number}-{n}") for n in range(count)]
        events.append(calling(*calls, text=content))
        events += [
            returned(c.id, content + str(number) or "x", source=source, stub="none") for c in calls
        ]
    reply = Reply(ReplyKind.ANSWER, text or "x", {"role": "assistant", "content": text})
    loop = replay(started(text=text or "?"), *events, ModelReplied(NOW, reply))
    result = result_of(loop, Finish(Status.COMPLETED, reply.text), ended_at=NOW)
    left = turn_of(loop, result, TurnBounds(result_chars=100, turn_tokens=turn_tokens))

    assert is_paired(left)
    assert (left[0]["role"], left[-1]["role"]) == ("user", "assistant")
    assert left[-1]["content"]
    assert sum(message["role"] == "user" for message in left) == 1
    assert sum(map(tokens_of, left)) <= max(turn_tokens, 60)
    together = [str(m.get("tool_calls")) for m in left if m.get("tool_calls")]
    assert together == [str(m["tool_calls"]) for m in loop.calling[len(rounds) - len(together) :]]
