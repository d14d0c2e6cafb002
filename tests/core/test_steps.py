"""How many steps a run gets and why; what failures add, and that a replay decides the same."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.fitting_cases import ABOUT, TOOLS
from worker.core.effects import CallModel, ChangeSteps, Finish
from worker.core.errors import ConfigError, IllegalEvent
from worker.core.events import ModelReplied, Started, StepsChanged, ToolReturned
from worker.core.fitting import words_of
from worker.core.limits import Limits, Status
from worker.core.loop import Loop
from worker.core.messages import Observation, Reply, ReplyKind, Source, ToolCall
from worker.core.steps import (
    BY_LENGTH,
    BY_TASK,
    StepPolicy,
    StepTable,
    after_failures,
    decide,
    nature_of,
    read_policy,
    tokens_in,
)
from worker.core.task import Task

ALL = words_of(TOOLS.values())
CLOCK = words_of([TOOLS["get_current_time"]])
QUOTE = words_of([TOOLS["get_stock_price"]])
ORDERS = words_of([TOOLS["get_order_detail"], TOOLS["submit_refund"], TOOLS["track_parcel"]])


def steps(text, tools=ALL, *, base=BY_TASK, **task):
    """What the policy decides for a question."""
    decided = decide(Task("t", text, **task), StepPolicy(base), tools)
    return decided.max_steps, decided.reason


# --- the notation --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "read"),
    [
        (8, ("fixed", 8, False)),
        ("12", ("fixed", 12, False)),
        ("by_task", ("by_task", 8, False)),
        (" By_Length ", ("by_length", 8, False)),
        ("adaptive", ("fixed", 8, True)),
        ("5 + adaptive", ("fixed", 5, True)),
        ("by_task+adaptive", ("by_task", 8, True)),
    ],
)
def test_the_notation_is_read(value, read):
    """A number, a policy, and either of them adaptive."""
    assert read_policy(value) == read


@pytest.mark.parametrize(
    "value",
    [
        *(0, -1, 1001, True, None, 2.5, "", "many", "8.5", "by_task+by_length", "adaptive+8"),
        *("by_task+8", "adaptive+adaptive", "+adaptive", "٣", "9" * 50),
    ],
)
def test_what_is_no_policy_is_refused(value):
    """A typing error is told with what is allowed."""
    with pytest.raises(ValueError, match="by_task"):
        read_policy(value)


# --- the decision at the beginning ---------------------------------------------------------------


def test_a_single_lookup_gets_two_or_three_steps():
    """A call and an answer; one more where arguments may have to be corrected."""
    assert steps("现在几点?", CLOCK) == (
        2,
        "by_task: lookup (one thing asked, get_current_time fits)",
    )
    assert steps("What is the stock price of Apple?", QUOTE)[0] == 3


@pytest.mark.parametrize(
    ("text", "tools", "most"),
    [
        ("苹果和微软的股价分别是多少?", QUOTE, 5),
        ("AAPL 现在的股价是多少?东京现在几点?", ALL, 5),
        ("Compare the stock price of AAPL with that of MSFT", QUOTE, 5),
        ("查订单 20261202CN0001 的物流,如果还没发货就退款,然后告诉我结果", ORDERS, 7),
        ("Look up order 20261202US0042, then refund it, and then email me the result", ORDERS, 7),
    ],
)
def test_several_things_get_five_to_seven_steps(text, tools, most):
    """More the more is asked."""
    decided, reason = steps(text, tools)

    assert 5 <= decided <= most
    assert reason.startswith("by_task: several (")


def test_an_exploration_gets_steps_by_the_length_of_its_question():
    """Longer briefs get more, up to a bound."""
    short, reason = steps("调研一下我们的库存系统")
    longer, _ = steps("Investigate why orders are late. " + "Look at carriers and stock. " * 40)
    longest, _ = steps("深入分析" + "每个仓库的库存和物流情况," * 500)

    assert reason.startswith("by_task: exploration (its words; about")
    assert 8 == short < longer < longest == 20


def test_a_question_that_fits_no_tool_plainly_is_no_lookup():
    """Nothing says that one call is enough, so it gets the steps of several things."""
    assert steps("继续处理之前的问题") == (5, "by_task: several (no tool plainly fits)")


def test_without_tools_two_steps_are_enough():
    """There is nothing to call."""
    assert steps("现在几点?", ()) == (2, "by_task: lookup (no tools are offered)")


@pytest.mark.parametrize(("kind", "expected"), [("lookup", 3), ("several", 5), ("exploration", 8)])
def test_a_task_may_say_what_it_is(kind, expected):
    """metadata.task_type goes before what the words seem to say."""
    metadata = {"task_type": kind}

    decided, reason = steps("What is the stock price of Apple?", QUOTE, metadata=metadata)

    assert decided == expected
    assert "metadata.task_type" in reason


@pytest.mark.parametrize("told", ["quick", 3, ["lookup"], {"a": 1}])
def test_a_task_type_that_is_not_known_is_told_in_the_reason(told):
    """It is not taken, and not passed over in silence."""
    decided, reason = steps("现在几点?", CLOCK, metadata={"task_type": told})

    assert decided == 2
    assert "metadata.task_type is none of lookup, several, exploration" in reason


def test_by_length_gives_more_to_longer_questions_up_to_a_bound():
    """A Chinese character counts as one token, four others as one."""
    assert steps("现在几点?", base=BY_LENGTH) == (3, "by_length: about 5 tokens")
    assert steps("字" * 120, base=BY_LENGTH)[0] == 5
    assert steps("word " * 96, base=BY_LENGTH)[0] == 5
    assert steps("字" * 100_000, base=BY_LENGTH)[0] == 12


def test_a_task_may_lower_its_steps_and_raise_them_up_to_the_ceiling():
    """Whoever gives a number means it: no policy and no failure changes it."""
    policy = StepPolicy(BY_TASK, is_adaptive=True, ceiling=20)

    lower, higher, over = (
        decide(Task("t", "x", max_steps=number), policy, ALL) for number in (1, 15, 90)
    )

    assert (lower.max_steps, lower.reason, lower.bound) == (1, "task", 1)
    assert (higher.max_steps, higher.reason, higher.bound) == (15, "task", 15)
    assert (over.max_steps, over.bound) == (20, 20)
    assert over.reason == "task asked for 90, the ceiling is 20"


def test_the_ceiling_holds_for_policies_and_for_what_failures_add():
    """Nothing exceeds it."""
    decided = decide(Task("t", "调研" * 5000), StepPolicy(BY_TASK, 8, True, 9), ALL)

    assert (decided.max_steps, decided.bound) == (9, 9)


@given(st.text(max_size=400), st.sampled_from(["fixed", BY_TASK, BY_LENGTH]), st.booleans())
def test_any_question_gets_steps_within_the_bounds_and_the_same_again(text, base, adaptive):
    """Deterministic, bounded, enough for a call and an answer; the reason tells no content."""
    policy = StepPolicy(base, is_adaptive=adaptive)
    task = Task("t", text)

    decided = decide(task, policy, ALL)

    assert decided == decide(task, policy, ALL)
    assert 2 <= decided.max_steps <= decided.bound <= policy.ceiling
    assert len(decided.reason) <= 200
    assert decided.reason.isascii()


def test_most_plain_questions_are_lookups():
    """The hand-made questions about one tool are known for what they are, most of them."""
    kinds = [nature_of(Task("t", text), words_of([TOOLS[name]])).kind for text, name in ABOUT]

    assert kinds.count("lookup") / len(kinds) > 0.75


@given(st.text(st.characters(exclude_categories=()), max_size=200))
def test_tokens_are_never_negative_and_grow_with_the_text(text):
    """Whatever the characters are, half surrogates and emoji among them."""
    assert 0 <= tokens_in(text) <= tokens_in(text + "字字") <= 2 * len(text) + 2


# --- what failures add ---------------------------------------------------------------------------


def started(max_steps=3, bound=5, **more):
    """A run that may be raised up to a bound."""
    values = {
        "at": 0.0,
        "task": {"id": "t", "input": "q"},
        "max_steps": max_steps,
        "max_steps_reason": "settings",
        "system_prompt": "s",
        "tools": ("price",),
        "language": "en",
        "steps_bound": bound,
    }
    return Started(**(values | more))


def turn(number, observation, *, problem=None):
    """One step: a call and what came of it."""
    arguments = None if problem else {"n": number}
    call = ToolCall(
        f"c{number}", "price", arguments, problem, "invalid_arguments" if problem else None
    )
    wire = {"id": call.id, "type": "function", "function": {"name": "price", "arguments": "{}"}}
    message = {"role": "assistant", "content": None, "tool_calls": [wire]}
    reply = Reply(ReplyKind.CALLS, "", message, (call,))
    return [ModelReplied(0.0, reply), ToolReturned(0.0, call.id, observation)]


FAILED = Observation("down", Source.ERROR, error_type="timeout", dependency_failed=True)
STUBBED = Observation("n/a", Source.STUB, reason="timeout", stub="n/a", dependency_failed=True)
REFUSED = Observation("n: missing", Source.ERROR, error_type="invalid_arguments")


def run(*events):
    """A loop that has seen these events."""
    return Loop.replay(Limits(), events)


@pytest.mark.parametrize(
    "observation", [FAILED, STUBBED, REFUSED], ids=["error", "stub", "invalid"]
)
def test_a_failed_step_earns_another_one(observation):
    """The decision is an effect, so that it is journaled with its reason before it counts."""
    loop = run(started(), *turn(1, observation))

    effect = loop.next(0.0)

    assert effect == ChangeSteps(4, "adaptive: 1 of 1 steps failed")

    loop.apply(StepsChanged(0.0, effect.max_steps, effect.reason))

    assert isinstance(loop.next(0.0), CallModel)
    assert (loop.max_steps, loop.max_steps_reason) == (
        4,
        "settings; adaptive: 1 of 1 steps failed",
    )


def test_a_step_that_worked_earns_none():
    """Not even an empty result, or one that was seen before: those have endings of their own."""
    loop = run(started(), *turn(1, Observation("12.5")), *turn(2, Observation("[]", empty=True)))

    assert isinstance(loop.next(0.0), CallModel)


@pytest.mark.parametrize(("bound", "failed", "steps"), [(8, 2, 5), (4, 9, 4), (0, 9, 3)])
def test_failures_only_ever_add_steps(bound, failed, steps):
    """Up to the bound, and never below what was decided: an old journal has the bound 0."""
    assert after_failures(3, bound=bound, failed_steps=failed) == steps


def test_failures_add_no_more_than_the_bound_that_was_decided():
    """A tool that never works cannot keep a run alive."""
    loop = run(started(max_steps=3, bound=4))
    asked = 0
    for number in range(1, 20):
        effect = loop.next(0.0)
        if isinstance(effect, ChangeSteps):
            loop.apply(StepsChanged(0.0, effect.max_steps, effect.reason))
            effect = loop.next(0.0)
        if isinstance(effect, Finish):
            break
        asked += 1
        for event in turn(number, FAILED)[: 1 if not effect.allow_calls else 2]:
            loop.apply(event)

    assert (asked, loop.max_steps, effect.status) == (4, 4, Status.MAX_STEPS)


def test_a_journal_of_an_older_version_stays_as_it_was_decided():
    """A run that began without a bound is never raised."""
    loop = run(started(max_steps=2, bound=0), *turn(1, FAILED))

    effect = loop.next(0.0)

    assert isinstance(effect, CallModel)
    assert not effect.allow_calls


def test_the_notes_on_what_is_left_follow_the_changed_bound():
    """The model is not told that a step is the last one when it is not."""
    before = run(started(max_steps=2, bound=2), *turn(1, FAILED))
    after = run(started(max_steps=2, bound=4), *turn(1, FAILED), StepsChanged(0.0, 3, "adaptive"))

    last = [loop.next(0.0).messages[-1].body["content"] for loop in (before, after)]

    assert "last step" in last[0]
    assert "[2 steps left.]" in last[1]
    assert after.next(0.0).allow_calls


def test_a_change_of_steps_cannot_come_between_a_call_and_its_result():
    """It is decided when the model is to be asked, never while calls are under way."""
    loop = run(started(), *turn(1, FAILED)[:1])

    with pytest.raises(IllegalEvent):
        loop.apply(StepsChanged(0.0, 9, "x"))


@given(st.lists(st.sampled_from([FAILED, STUBBED, Observation("1"), Observation("2")]), max_size=9))
def test_a_replay_of_every_prefix_has_the_same_steps(observations):
    """Also under other settings: what was decided is in the facts."""
    events = [started(max_steps=3, bound=6)]
    live = run(*events)
    for number, observation in enumerate(observations):
        effect = live.next(0.0)
        while isinstance(effect, ChangeSteps):
            events.append(StepsChanged(0.0, effect.max_steps, effect.reason))
            live.apply(events[-1])
            effect = live.next(0.0)
        if isinstance(effect, Finish) or not effect.allow_calls:
            break
        for event in turn(number, observation):
            events.append(event)
            live.apply(event)

    again = run(*events)

    assert again.max_steps == live.max_steps <= 6
    assert again.next(0.0) == live.next(0.0)


# --- the settings --------------------------------------------------------------------------------


def test_settings_carry_the_policy_and_its_numbers():
    """Environment to core, the numbers included; what is shown is what was written."""
    from worker.configuration import load

    environ = {
        "LOOPWORKER_MAX_STEPS": "By_Task + Adaptive",
        "LOOPWORKER_STEPS__LOOKUP_MAX": "4",
        "LOOPWORKER_LOOP__STEPS_CEILING": "30",
    }
    settings = load(environ).settings

    assert settings.max_steps == "by_task+adaptive"
    assert json.dumps(settings.max_steps)
    expected = StepPolicy(BY_TASK, 8, True, 30, StepTable(lookup_max=4))
    assert settings.step_policy() == expected
    assert load({"LOOPWORKER_MAX_STEPS": "6"}).settings.max_steps == 6


@pytest.mark.parametrize(
    ("environ", "named"),
    [
        ({"MAX_STEPS": "many"}, "by_task"),
        ({"MAX_STEPS": "0"}, "from 1 to 1000"),
        ({"MAX_STEPS": "60"}, "LOOP__STEPS_CEILING"),
        ({"MAX_STEPS": "by_task", "LOOP__STEPS_CEILING": "10"}, "may give 20 steps"),
        ({"STEPS__LOOKUP_MIN": "4"}, "STEPS__LOOKUP_MAX"),
        ({"STEPS__LOOKUP_MIN": "1"}, "from 2"),
        ({"STEPS__LENGTH_TOKENS": "0"}, "STEPS__LENGTH_TOKENS"),
    ],
)
def test_settings_that_cannot_hold_are_refused_at_the_start(environ, named):
    """With the name of the setting and what is allowed."""
    from worker.configuration import load

    with pytest.raises(ConfigError, match=named) as refused:
        load({f"LOOPWORKER_{name}": value for name, value in environ.items()})

    assert "Value error" not in str(refused.value)


def test_a_low_ceiling_is_fine_with_a_number_below_it():
    """The bounds of policies that are not in use need not fit."""
    from worker.configuration import load

    assert load({"LOOPWORKER_LOOP__STEPS_CEILING": "8"}).settings.max_steps == 8
