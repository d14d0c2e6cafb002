"""The loop as a state machine: every stop reason, every refusal, and its invariants."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from worker.core.effects import AddNote, CallModel, CallTools, Finish, Park
from worker.core.ending import result_of
from worker.core.errors import IllegalEvent
from worker.core.events import (
    Ended,
    ModelFailed,
    ModelReplied,
    NoteAdded,
    Parked,
    Resumed,
    Started,
    ToolReturned,
    ToolStarted,
)
from worker.core.limits import Limits, Status
from worker.core.loop import Loop
from worker.core.messages import Observation, Reply, ReplyKind, Source, ToolCall, Usage

NOW = 1000.0


def started(text="hello", **more):
    """A fresh run of a question."""
    values = {
        "at": NOW,
        "task": {"id": "t1", "input": text},
        "max_steps": 8,
        "max_steps_reason": "settings",
        "system_prompt": "be good",
        "tools": ("price",),
        "language": "en",
    }
    return Started(**(values | more))


def answer(text="done", kind=ReplyKind.ANSWER, **more):
    """A reply without calls."""
    message = {"role": "assistant", "content": text}
    return ModelReplied(NOW, Reply(kind, text, message, **more))


def calling(*calls, text=""):
    """A reply that asks for calls."""
    wire = [
        {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": "{}"}}
        for c in calls
    ]
    message = {"role": "assistant", "content": text or None, "tool_calls": wire}
    usage = Usage(model_calls=1, prompt_tokens=10, completion_tokens=5)
    return ModelReplied(NOW, Reply(ReplyKind.CALLS, text, message, tuple(calls), usage))


def call(call_id="c1", name="price", arguments=None, **more):
    """One call."""
    return ToolCall(call_id, name, {} if arguments is None else arguments, **more)


def returned(call_id="c1", content="12.50", **more):
    """One observation."""
    return ToolReturned(NOW, call_id, Observation(content, **more))


def replay(*events, **limits):
    """A loop that has seen these events."""
    return Loop.replay(Limits(**limits), events)


def bodies(effect):
    """The messages of a model call, as they go over the wire."""
    assert isinstance(effect, CallModel)
    return [message.body for message in effect.messages]


def test_begins_with_the_system_prompt_and_the_question():
    """The first effect is a model call with prompt, history and question."""
    history = ({"role": "user", "content": "q"}, {"role": "assistant", "content": "a"})

    effect = replay(started(history=history)).next(NOW)

    assert [m["role"] for m in bodies(effect)] == ["system", "user", "assistant", "user"]
    assert effect.allow_calls


def test_answers_end_the_run():
    """A reply without calls is the answer."""
    effect = replay(started(), answer("42")).next(NOW)

    assert effect == Finish(Status.COMPLETED, "42")


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        (ReplyKind.LENGTH, Status.INCOMPLETE_LENGTH),
        (ReplyKind.CONTENT_FILTERED, Status.CONTENT_FILTERED),
        (ReplyKind.REFUSED, Status.REFUSED),
    ],
)
def test_a_cut_filtered_or_refused_reply_has_its_own_ending(kind, status):
    """What is no full answer never looks like one."""
    effect = replay(started(), answer("par", kind, finish_reason="x")).next(NOW)

    assert (effect.status, effect.answer) == (status, "par")


def test_pairs_every_call_in_order_whatever_the_order_of_return():
    """Tool messages follow the assistant message in call order, ids byte for byte."""
    one, two = call("Call_A"), call("functions.price:1")
    loop = replay(started(), calling(one, two))

    assert loop.next(NOW).calls == (one, two)

    loop.apply(returned("functions.price:1", "second"))
    loop.apply(returned("Call_A", "first"))
    tail = bodies(loop.next(NOW))[-3:]

    assert [m["role"] for m in tail] == ["assistant", "tool", "tool"]
    assert [m.get("tool_call_id") for m in tail[1:]] == ["Call_A", "functions.price:1"]
    assert [m["content"] for m in tail[1:]] == ["first", "second"]


def test_asks_only_for_calls_that_have_no_observation_yet():
    """After a crash a journaled call is not asked for again."""
    loop = replay(started(), calling(call("a"), call("b")), returned("a"))

    assert [c.id for c in loop.next(NOW).calls] == ["b"]


def test_names_a_started_call_without_a_result_in_doubt():
    """A write-ahead without a result means that the effect may have happened."""
    loop = replay(started(), calling(call("a"), call("b")), ToolStarted(NOW, "a", "key"))

    assert loop.next(NOW).in_doubt == {"a"}


def test_answers_calls_above_the_limit_without_running_them():
    """Of too many calls in one reply the rest is answered as skipped."""
    calls = [call(f"c{i}") for i in range(4)]

    effect = replay(started(), calling(*calls), max_calls_per_step=3).next(NOW)

    assert [c.id for c in effect.calls] == ["c0", "c1", "c2"]
    assert [(c.id, o.source) for c, o in effect.answered] == [("c3", Source.SKIPPED)]


def test_the_last_step_forbids_calls_and_tells_the_model_in_its_language():
    """At the last step the model must answer with what it has; the note rides on the result."""
    first = started("多少钱?", max_steps=2, language="zh")
    loop = replay(first, calling(call()), returned())

    effect = loop.next(NOW)

    assert not effect.allow_calls
    assert bodies(effect)[-1]["role"] == "tool"
    assert "最后一步" in bodies(effect)[-1]["content"]


def test_a_call_in_the_closing_turn_is_never_run():
    """If the model still calls at the last step, the run ends as max_steps."""
    loop = replay(started(max_steps=1), calling(call(), text="let me see"))

    effect = loop.next(NOW)
    result = result_of(loop, effect, ended_at=NOW)

    assert effect.status == Status.MAX_STEPS
    assert [c.source for c in result.tool_calls] == ["skipped"]


def test_asks_again_after_an_empty_reply_and_not_for_ever():
    """An empty reply is nudged without a user message after a tool message; then it ends."""
    loop = replay(started(), calling(call()), returned(), max_empty_replies=2)
    for _ in range(2):
        loop.apply(answer("", ReplyKind.EMPTY))
        roles = [m["role"] for m in bodies(loop.next(NOW))]
        assert roles == ["system", "user", "assistant", "tool"]
        assert "empty" in bodies(loop.next(NOW))[-1]["content"]
    loop.apply(answer("", ReplyKind.EMPTY))

    assert loop.next(NOW).status == Status.EMPTY_RESPONSE


def test_three_replies_without_a_valid_call_end_the_run():
    """Invalid calls go back to the model, but not for ever."""
    loop = replay(started())
    bad = {"problem": "no such tool", "problem_kind": "unknown_tool"}
    for i in range(3):
        assert isinstance(loop.next(NOW), CallModel)
        loop.apply(calling(call(f"c{i}", "nope", **bad)))
        loop.apply(returned(f"c{i}", f"error {i}", source=Source.ERROR))

    assert loop.next(NOW).status == Status.TOOL_ERRORS


def test_a_repeated_call_is_warned_after_three_and_ended_at_the_fourth():
    """Same tool, same arguments, same result: a warning first, then loop_detected."""
    loop = replay(started())
    for i in range(4):
        effect = loop.next(NOW)
        if isinstance(effect, AddNote):
            assert i == 3
            loop.apply(NoteAdded(NOW, effect.kind, effect.text))
            effect = loop.next(NOW)
            assert "Do not repeat it" in bodies(effect)[-1]["content"]
        assert isinstance(effect, CallModel)
        loop.apply(calling(call(f"c{i}")))
        loop.apply(returned(f"c{i}"))

    assert loop.next(NOW).status == Status.LOOP_DETECTED


def test_another_result_resets_the_repetition():
    """A poller that sees something new is not a loop."""
    loop = replay(started(), max_repeats=2)
    for i in range(4):
        loop.apply(calling(call(f"c{i}")))
        loop.apply(returned(f"c{i}", f"price {i}"))
        assert isinstance(loop.next(NOW), CallModel)


def test_two_empty_results_in_a_row_end_as_no_information():
    """Nothing found twice is an answer of its own."""
    loop = replay(started(language="zh"))
    for i in range(2):
        loop.apply(calling(call(f"c{i}", arguments={"n": i})))
        loop.apply(returned(f"c{i}", "(no output)", empty=True))

    assert loop.next(NOW) == Finish(Status.NO_INFORMATION, "未找到相关信息")


def test_the_deadline_ends_the_run_but_not_an_answer_that_is_there():
    """Time is up: the run ends, unless the answer has come already."""
    late = started(deadline=NOW + 5)

    assert replay(late).next(NOW + 5).status == Status.DEADLINE
    assert replay(late, answer("ok")).next(NOW + 9).status == Status.COMPLETED
    assert replay(late).next(NOW + 2).seconds_left == 3


def test_the_token_budget_ends_the_run():
    """A run that has used up its tokens asks no more."""
    loop = replay(started(), calling(call()), returned(), tokens=15)

    assert loop.next(NOW).status == Status.BUDGET


def test_a_model_failure_ends_the_run_until_a_later_delivery_resumes_it():
    """A transient failure is an ending for this delivery only."""
    failure = ModelFailed(NOW, "model_unavailable", "503", transient=True)
    loop = replay(started(), failure)

    assert loop.next(NOW).transient

    loop.apply(Resumed(NOW, 2))

    assert isinstance(loop.next(NOW), CallModel)


def test_a_parked_run_waits_and_resumes():
    """Parked holds nothing; resumed goes on where it was."""
    loop = replay(started(), Parked(NOW, "job", until=NOW + 60))

    assert loop.next(NOW) == Park("job", NOW + 60)

    loop.apply(Resumed(NOW + 60, 2))

    assert isinstance(loop.next(NOW), CallModel)


@pytest.mark.parametrize(
    "events",
    [
        (answer(),),
        (started(), started()),
        (started(), returned()),
        (started(), ToolStarted(NOW, "c1", "k")),
        (started(), calling(call()), answer()),
        (started(), calling(call(), call())),
        (started(), calling(call()), returned(), returned()),
        (started(), calling(call("a"), call("b")), returned("a"), returned("a")),
        (started(), Ended(NOW, "cancelled"), answer()),
    ],
    ids=lambda events: " ".join(type(e).__name__ for e in events),
)
def test_refuses_an_event_that_cannot_follow(events):
    """An impossible journal is an error, and the refused event changes nothing."""
    loop = Loop.replay(Limits(), events[:-1])
    before = (repr(loop), loop.replies, dict(loop.pending), dict(loop.returned))

    with pytest.raises(IllegalEvent):
        loop.apply(events[-1])

    assert before == (repr(loop), loop.replies, dict(loop.pending), dict(loop.returned))


# --- invariants ------------------------------------------------------------------------------------


@st.composite
def histories(draw):
    """Events of a run as a random model and random tools would make them, and its limits."""
    limits = Limits(max_repeats=draw(st.integers(2, 5)))
    pollers = draw(st.sampled_from([(), ("price",)]))
    events = [started(max_steps=draw(st.integers(1, 6)), pollers=pollers)]
    loop = Loop.replay(limits, events)
    while True:
        effect = loop.next(NOW)
        more = _react(draw, effect, len(events))
        if not more:
            return limits, events
        for event in more:
            loop.apply(event)
            events.append(event)


def _react(draw, effect, number):
    match effect:
        case CallModel():
            kinds = [ReplyKind.ANSWER, ReplyKind.EMPTY, *[ReplyKind.CALLS] * 4]
            kind = draw(st.sampled_from(kinds))
            if kind is not ReplyKind.CALLS:
                return [answer("x" if kind is ReplyKind.ANSWER else "", kind)]
            ids = [f"{number}-{i}" for i in range(draw(st.integers(1, 3)))]
            return [calling(*(call(i, arguments={"n": draw(st.integers(0, 1))}) for i in ids))]
        case CallTools():
            order = draw(st.permutations(effect.calls))
            return [returned(c.id, draw(st.sampled_from(["a", "b"]))) for c in order]
        case AddNote():
            return [NoteAdded(NOW, effect.kind, effect.text)]
        case _:
            return []


def unpaired(messages):
    """The first place where a call is not answered exactly once, in order, directly after it."""
    expected = []
    for index, message in enumerate(messages):
        if message["role"] == "tool":
            if not expected or message["tool_call_id"] != expected.pop(0):
                return index
        elif expected:
            return index
        else:
            expected = [c["id"] for c in message.get("tool_calls") or ()]
    return len(messages) if expected else None


@settings(max_examples=200, deadline=None)
@given(histories())
def test_invariant_paired_bounded_and_replayable(made):
    """Any run is paired in every request, bounded by max_steps, and equal to its own replay."""
    limits, events = made
    live = Loop(limits)
    for number, event in enumerate(events):
        live.apply(event)
        effect = live.next(NOW)
        again = Loop.replay(limits, events[: number + 1])

        assert effect == live.next(NOW), "next is idempotent"
        assert effect == again.next(NOW), "a replay decides the same"
        assert live.replies <= live.max_steps
        if isinstance(effect, CallModel):
            assert unpaired(bodies(effect)) is None
    assert isinstance(live.next(NOW), Finish)
    seen = [c.id for c in result_of(live, live.next(NOW), ended_at=NOW).tool_calls]
    assert len(seen) == len(set(seen)), "one observation for each call"


@settings(max_examples=100, deadline=None)
@given(histories(), st.integers(1, 10))
def test_limits_may_change_under_a_running_task(made, max_repeats):
    """A journal made under other limits still folds and still decides."""
    _, events = made
    for number in range(1, len(events) + 1):
        loop = Loop.replay(Limits(max_repeats=max_repeats), events[:number])
        assert loop.next(NOW) is not None


@settings(max_examples=50, deadline=None)
@given(histories())
def test_messages_are_encoded_once(made):
    """A message once sent is the same object in every later request (invariant: linear)."""
    limits, events = made
    loop = Loop(limits)
    sealed = []
    for event in events:
        loop.apply(event)
        effect = loop.next(NOW)
        if isinstance(effect, CallModel):
            kept = [m for m in effect.messages if any(m is s for s in sealed)]
            assert kept == [m for m in sealed if m in effect.messages]
            sealed = [m for m in effect.messages if m.role in ("user", "assistant")]
