"""The three symptoms of a sick loop: when they are told, when not, and the cause that is named."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.fitting_cases import ABOUT, ABOUT_NOTHING, TOOLS, offered
from worker.core.diagnosis import diagnose
from worker.core.effects import Finish
from worker.core.events import ModelReplied, Started, ToolReturned
from worker.core.fitting import words_of
from worker.core.limits import Limits, Status
from worker.core.loop import Loop
from worker.core.messages import Observation, Reply, ReplyKind, Source, ToolCall
from worker.core.texts import RESULT_CUT, SYSTEM_PROMPT

ALL = words_of(TOOLS.values())
DONE = Status.COMPLETED


def begun(question="AAPL 的股价?", **more):
    """A loop that has begun."""
    values = {
        "at": 0.0,
        "task": {"id": "t", "input": question},
        "max_steps": 8,
        "max_steps_reason": "settings",
        "system_prompt": SYSTEM_PROMPT["zh"],
        "tools": ("get_stock_price",),
        "language": "zh",
    }
    return Loop.replay(Limits(), [Started(**(values | more))])


def step(loop, name="price", arguments=None, observation=None, **call):
    """One reply with a call, and its result unless there is none."""
    number = loop.replies + 1
    made = ToolCall(f"c{number}", name, {} if arguments is None else arguments, **call)
    wire = {"id": made.id, "type": "function", "function": {"name": name, "arguments": "{}"}}
    message = {"role": "assistant", "content": None, "tool_calls": [wire]}
    loop.apply(ModelReplied(0.0, Reply(ReplyKind.CALLS, "", message, (made,))))
    if observation is not None:
        loop.apply(ToolReturned(0.0, made.id, observation))


def answered(loop, text, tools=ALL):
    """The symptoms of a run that ends with this answer."""
    reply = Reply(ReplyKind.ANSWER, text, {"role": "assistant", "content": text})
    loop.apply(ModelReplied(0.0, reply))
    return diagnose(loop, loop.next(0.0), tools)


def only(found):
    """The one symptom that was found."""
    assert len(found) == 1, found
    return found[0].symptom, found[0].hint


# --- no_call -------------------------------------------------------------------------------------


def test_an_answer_without_the_call_that_fits_is_a_symptom():
    """Without a plainer cause the endpoint is to be asked for a real call."""
    symptom, hint = only(answered(begun(), "180 美元"))

    assert symptom == "no_call"
    assert hint.startswith("get_stock_price fits the question and was not called: ")
    assert "loopworker doctor" in hint


@pytest.mark.parametrize(
    ("tool", "said"),
    [
        (
            offered("get_stock_price", "查询股价,可选使用。", "symbol"),
            "its description says '可选'",
        ),
        (
            offered("get_stock_price", "Price of a stock; can be used if needed.", "symbol"),
            "'can be used'",
        ),
        (offered("get_stock_price", "", "symbol"), "it has no description"),
        (
            offered(
                "get_stock_price",
                "查询股价。",
                symbol={"type": "string", "description": "建议填写代码"},
            ),
            "the description of symbol says '建议'",
        ),
    ],
)
def test_a_soft_description_is_the_first_suspect(tool, said):
    """A model that reads "may be used" does not use it."""
    _, hint = only(answered(begun(), "180 美元", words_of([tool])))

    assert said in hint
    assert "loopworker tools lint" in hint


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>{"name": "get_stock_price"}',
        "get_stock_price(symbol='AAPL')",
        '{"name": "quote", "arguments": {"symbol": "AAPL"}}',
        "[TOOL_CALLS] get_stock_price",
    ],
)
def test_a_call_that_leaked_into_the_answer_names_the_parser(text):
    """The model called, and the server did not see it."""
    assert "tool parser" in only(answered(begun(), text))[1]


def test_a_run_of_one_step_could_not_call():
    """The only step is the closing turn: that is no fault of the model."""
    assert "with max_steps 1" in only(answered(begun(max_steps=1), "180 美元"))[1]


def test_a_prompt_of_ones_own_is_named():
    """It replaces the one that demands tools."""
    loop = begun(system_prompt="You are a pirate.")

    assert "LOOPWORKER_SYSTEM_PROMPT" in only(answered(loop, "180 美元"))[1]


@pytest.mark.parametrize(
    "text",
    [
        "请提供股票代码。",
        "您想查哪只股票?",
        "Which ticker do you mean?",
        "Please tell me the symbol.",
    ],
)
def test_a_question_back_is_no_symptom(text):
    """What a tool needs may have to be asked for first."""
    assert answered(begun("帮我查一下股价"), text) == ()


def test_a_question_back_is_no_excuse_where_the_tool_needs_nothing():
    """The clock could have been read without it."""
    assert only(answered(begun("现在几点?"), "请提供时区。"))[0] == "no_call"


def test_a_session_with_results_may_answer_from_them():
    """What was found out before may be enough."""
    call = {"id": "c", "type": "function", "function": {"name": "x", "arguments": "{}"}}
    history = (
        {"role": "user", "content": "股价?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "180"},
    )

    assert answered(begun(history=history), "180 美元") == ()


def test_a_run_that_called_anything_is_no_symptom():
    """Whether it was the best tool is not for us to say."""
    loop = begun()
    step(loop, observation=Observation("180"))

    assert answered(loop, "180 美元") == ()


@pytest.mark.parametrize("status", [s for s in Status if s != DONE])
def test_only_an_answer_can_lack_a_call(status):
    """A run that was cut off, refused or cancelled had no chance."""
    found = diagnose(begun(), Finish(status, "x"), ALL)

    assert "no_call" not in [sign.symptom for sign in found]


def test_questions_that_need_no_tool_raise_no_alarm():
    """At most one in a hundred of the hand-made ones, all tools offered."""
    false = [q for q in ABOUT_NOTHING if answered(begun(q), "嗯,好的。")]

    assert len(false) * 100 <= len(ABOUT_NOTHING), false


def test_most_questions_about_a_tool_raise_one():
    """Nine in ten, when they are answered at once."""
    missed = [q for q, _ in ABOUT if not answered(begun(q), "It is 42.")]

    assert len(missed) * 10 <= len(ABOUT), missed


# --- repeated_call -------------------------------------------------------------------------------

SAME = Observation("12.50")


@pytest.mark.parametrize(
    ("observation", "call", "said"),
    [
        (SAME, {}, "price was called 3 times with the same arguments and gave the same result"),
        (Observation("[]", empty=True), {}, "price found nothing, 3 times"),
        (Observation("no such order", Source.ERROR, error_type="other"), {}, "the same error"),
        (
            Observation("n/a", Source.STUB, reason="circuit_open", dependency_failed=True),
            {},
            "though it was not available (circuit_open)",
        ),
        (Observation("a" + RESULT_CUT["zh"].format(count=9) + "z"), {}, "MAX_RESULT_CHARS"),
        (Observation("a" + RESULT_CUT["en"].format(count=9) + "z"), {}, "MAX_RESULT_CHARS"),
        (
            Observation("symbol: missing", Source.ERROR, error_type="invalid_arguments"),
            {"problem": "symbol: missing", "problem_kind": "invalid_arguments"},
            "the same mistake (invalid_arguments)",
        ),
    ],
    ids=["same", "empty", "error", "stub", "cut-zh", "cut-en", "invalid"],
)
def test_the_same_call_again_and_again_is_a_symptom(observation, call, said):
    """With the cause that its results show."""
    loop = begun("hello")
    for _ in range(3):
        step(loop, observation=observation, **call)

    symptom, hint = only(answered(loop, "sorry"))

    assert symptom == "repeated_call"
    assert said in hint


def test_calls_that_take_turns_are_seen_as_well():
    """A, B, A, B, A is the same call three times, though never twice in a row."""
    loop = begun("hello")
    for number in range(5):
        step(loop, arguments={"n": number % 2}, observation=Observation(str(number % 2)))

    assert only(answered(loop, "sorry"))[0] == "repeated_call"


def test_two_of_the_same_and_new_results_are_no_symptom():
    """A poller that sees something new is well; so is a call that is checked once more."""
    loop = begun("hello")
    for number in range(4):
        step(loop, observation=Observation(f"{number} %"))
    step(loop, observation=Observation("3 %"))

    assert answered(loop, "done") == ()


def test_a_declared_poller_may_repeat_itself():
    """Asking how far a job is, again and again, is what it is for."""
    loop = begun("hello", pollers=("price",))
    for _ in range(6):
        step(loop, observation=SAME)

    assert answered(loop, "done") == ()


def test_a_mistake_in_the_call_of_a_poller_is_a_repetition():
    """It never asked how far the job is."""
    loop = begun("hello", pollers=("price",))
    wrong = Observation("symbol: missing", Source.ERROR, error_type="invalid_arguments")
    for _ in range(3):
        step(loop, observation=wrong, problem="symbol: missing", problem_kind="invalid_arguments")

    assert only(answered(loop, "sorry"))[0] == "repeated_call"


def test_the_same_call_thrice_in_one_reply_is_no_repetition():
    """It was not seen to have happened before it was made again."""
    loop = begun("hello")
    calls = tuple(ToolCall(f"c{n}", "price", {}) for n in range(3))
    message = {"role": "assistant", "content": None, "tool_calls": []}
    loop.apply(ModelReplied(0.0, Reply(ReplyKind.CALLS, "", message, calls)))
    for call in calls:
        loop.apply(ToolReturned(0.0, call.id, SAME))

    assert answered(loop, "done") == ()


def test_a_detected_loop_is_always_a_symptom():
    """The ending and the symptom go together."""
    loop = begun("hello")
    for _ in range(4):
        step(loop, observation=SAME)

    effect = loop.next(0.0)

    assert effect.status == Status.LOOP_DETECTED
    assert only(diagnose(loop, effect, ()))[0] == "repeated_call"


def test_a_loop_that_is_detected_early_is_explained_as_well():
    """Where two rounds are enough to end a run, two are enough to name the cause."""
    loop = begun("hello")
    loop.limits = Limits(max_repeats=2)
    for _ in range(2):
        step(loop, observation=SAME)

    assert "price was called 2 times" in only(diagnose(loop, loop.next(0.0), ()))[1]


# --- no_answer -----------------------------------------------------------------------------------


def exhausted(loop, *observations, **call):
    """The one symptom of a run whose closing turn calls again."""
    for number, observation in enumerate(observations):
        step(loop, arguments={"n": number}, observation=observation, **call)
    step(loop, arguments={"n": 99})
    effect = loop.next(0.0)
    assert effect.status == Status.MAX_STEPS
    return only([s for s in diagnose(loop, effect, ALL) if s.symptom == "no_answer"])[1]


def test_steps_that_all_brought_something_were_too_few():
    """The bound is named with its reason, and what the model did in its closing turn."""
    loop = begun(max_steps=3, max_steps_reason="by_task: lookup")

    hint = exhausted(loop, Observation("1"), Observation("2"))

    assert "3 steps (by_task: lookup) were too few" in hint
    assert "in its closing turn the model still called price" in hint


def test_failing_tools_are_the_cause_where_half_of_the_steps_went_into_them():
    """With the tool and what it failed of."""
    down = Observation("x", Source.ERROR, error_type="timeout", dependency_failed=True)

    hint = exhausted(begun(max_steps=3), down, Observation("2"))

    assert hint.startswith("1 of 3 steps failed (price: timeout)")


def test_one_failure_among_many_steps_is_not_the_cause():
    """Less than half of the steps went into it."""
    down = Observation("x", Source.ERROR, error_type="timeout", dependency_failed=True)

    hint = exhausted(begun(max_steps=5), down, *map(Observation, "234"))

    assert hint.startswith("5 steps (settings) were too few")


def test_the_name_of_a_call_is_told_in_bounds():
    """A model may make up a name of any length."""
    loop = begun(max_steps=2)
    step(loop, observation=Observation("1"))
    step(loop, "n" * 10_000, arguments={"n": 1})

    (found,) = diagnose(loop, loop.next(0.0), ALL)

    assert len(found.hint) < 400


def test_one_step_leaves_none_for_a_call():
    """The setting is the cause."""
    assert "max_steps 1 leaves no step for a call" in exhausted(begun(max_steps=1))


def test_an_empty_closing_turn_is_named():
    """The model may not be able to answer once it may call no more."""
    loop = begun("hello", max_steps=2)
    step(loop, observation=Observation("1"))
    loop.apply(ModelReplied(0.0, Reply(ReplyKind.EMPTY, "", {"role": "assistant"})))

    effect = loop.next(0.0)

    assert effect.status == Status.MAX_STEPS
    assert "empty reply" in only(diagnose(loop, effect, ()))[1]


def test_steps_that_went_into_one_call_point_to_the_other_symptom():
    """Both are told; the likely cause is told once."""
    loop = begun("hello", max_steps=6)
    for number in range(5):
        step(loop, arguments={"n": number % 2}, observation=Observation(str(number % 2)))
    step(loop)

    found = diagnose(loop, loop.next(0.0), ())

    assert [sign.symptom for sign in found] == ["repeated_call", "no_answer"]
    assert "see repeated_call" in found[1].hint


@given(
    st.text(min_size=1, max_size=40), st.text(max_size=60), st.lists(st.integers(0, 2), max_size=6)
)
def test_hints_are_short_and_tell_no_content(question, text, results):
    """Whatever was asked, called and answered: no argument, no result, no word of the answer."""
    secret = "sk-live-4242"
    loop = begun(f"{question} {secret} 股价", max_steps=len(results) + 1)
    for value in results:
        step(loop, arguments={"key": secret}, observation=Observation(f"{secret} {value}"))
    found = answered(loop, f"{text} {secret}")

    assert all(len(sign.hint) <= 320 and secret not in sign.hint for sign in found)
    assert len({sign.symptom for sign in found}) == len(found)
