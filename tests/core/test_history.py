"""Earlier conversations are repaired and cut without orphaning a tool message."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.core.history import cut, is_paired, repaired, tokens_of, turns, without_calls


def turn(number, answered=True):
    """One user turn with a call."""
    messages = [
        {"role": "user", "content": f"q{number}"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": f"h{number}", "type": "function", "function": {"name": "price"}}],
        },
    ]
    if answered:
        messages.append({"role": "tool", "tool_call_id": f"h{number}", "content": "12.50"})
    return messages


def test_an_unanswered_call_gets_a_synthetic_result():
    """A history that ends in a call is made whole."""
    fixed = repaired(turn(1, answered=False), language="en")

    assert fixed[-1]["tool_call_id"] == "h1"
    assert "interrupted" in fixed[-1]["content"]


def test_an_orphaned_result_is_dropped():
    """A tool message without its call is refused by servers, so it leaves."""
    orphan = {"role": "tool", "tool_call_id": "x", "content": "1"}

    assert repaired([orphan, *turn(1)], language="en") == turn(1)


def test_of_two_results_of_one_call_the_first_stays():
    """It is the one that the model has seen."""
    again = {"role": "tool", "tool_call_id": "h1", "content": "99"}

    assert repaired([*turn(1), again], language="en") == turn(1)


def test_a_result_without_words_says_so():
    """An empty result is refused by some servers, whoever wrote it down."""
    for nothing in ("", " \n", []):
        result = {"role": "tool", "tool_call_id": "h1", "content": nothing}

        assert repaired([*turn(1)[:2], result], language="en")[-1]["content"] == "(no output)"


def test_forms_of_other_times_are_told_in_the_present_one():
    """`function_call` and its `function` message are a call and its result; a developer a system."""
    asked = {"name": "price", "arguments": "{}"}
    old = [
        {"role": "developer", "content": "be short"},
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": None, "function_call": asked},
        {"role": "function", "name": "price", "content": "12.50"},
        {"role": "assistant", "content": "a", "function_call": None},
    ]
    system, question, calling, result, said = repaired(old, language="en")

    assert system == {"role": "system", "content": "be short"}
    assert (question["role"], said) == ("user", {"role": "assistant", "content": "a"})
    (call,) = calling["tool_calls"]
    assert (call["function"], "function_call" in calling) == (asked, False)
    assert result == {"role": "tool", "tool_call_id": call["id"], "content": "12.50"}


def test_an_empty_call_list_is_never_sent():
    """`tool_calls: []` is an error for several servers."""
    message = {"role": "assistant", "content": "hi", "tool_calls": []}

    assert repaired([message], language="en") == [{"role": "assistant", "content": "hi"}]


def test_what_is_no_message_is_dropped():
    """A conversation that somebody else wrote costs what cannot be sent, and nothing beside it."""
    junk = [None, 7, "hello", [], {}, {"role": "critic", "content": "x"}, {"role": ["user"]}]
    empty = [{"role": "user"}, {"role": "user", "content": ""}, {"role": "assistant", "content": 7}]

    assert repaired([*junk, *turn(1), *empty], language="en") == turn(1)


def test_calls_that_cannot_be_sent_back_are_dropped():
    """Without an id or a name, or twice under one id; the rest of the reply stays, paired."""
    named = {"name": "price"}
    bad = [7, {}, {"id": "x"}, {"id": "x", "function": {}}, {"function": named}]
    bad += [{"id": ["x"], "function": named}, {"id": "h1", "function": named}]
    good = turn(1)
    asking = {**good[1], "tool_calls": [*good[1]["tool_calls"], *bad]}

    assert repaired([good[0], asking, good[2]], language="en") == good
    hopeless = {"role": "assistant", "content": "let me see", "tool_calls": bad[:5]}
    assert repaired([good[0], hopeless, good[2]], language="en") == [
        good[0],
        {"role": "assistant", "content": "let me see"},
    ]


anything = st.sampled_from([None, True, 7, "", "a", "user", [], ["a"], {}, {"id": "a"}, [{}]])
calls = st.lists(
    st.fixed_dictionaries(
        {"id": st.sampled_from("abc") | anything, "function": st.just({"name": "f"}) | anything}
    )
    | anything,
    max_size=3,
)
ANY_ROLE = ["user", "assistant", "tool", "system", "developer", "function"]
wild = st.fixed_dictionaries(
    {"role": st.sampled_from(ANY_ROLE) | anything},
    optional={
        "function_call": st.just({"name": "f"}) | anything,
        "content": st.just("x") | anything,
        "tool_calls": calls | anything,
        "tool_call_id": st.sampled_from("abc") | anything,
    },
)


@given(st.lists(wild | anything, max_size=8))
def test_whatever_was_stored_comes_out_paired(messages):
    """Any JSON at all: nothing is raised, every call is paired, and it is so for good."""
    fixed = repaired(messages, language="en")

    assert is_paired(fixed)
    assert repaired(fixed, language="en") == fixed
    assert is_paired(without_calls(fixed))
    assert not any(m.get("tool_calls") for m in without_calls(fixed))
    assert all(m.get("content") or m.get("tool_calls") or m["role"] == "tool" for m in fixed)


def test_a_run_without_tools_is_told_no_calls():
    """What was said stays; calls in a request that names no tool are refused by some servers."""
    answer = {"role": "assistant", "content": "12.50"}

    assert without_calls([*turn(1), answer]) == [turn(1)[0], answer]
    assert without_calls([turn(1)[0], answer]) == [turn(1)[0], answer]


@given(st.integers(0, 8), st.integers(1, 30), st.one_of(st.none(), st.integers(0, 400)))
def test_cutting_keeps_whole_turns_then_what_was_said(count, at_most, tokens_max):
    """The newest turns stay whole, older ones as question and answer; it fits, and is paired."""
    whole = [[*turn(n), {"role": "assistant", "content": f"a{n}"}] for n in range(count)]
    messages = [message for one in whole for message in one]

    kept = cut(messages, at_most=at_most, tokens_max=tokens_max)

    assert len(kept) <= at_most
    assert tokens_max is None or sum(map(tokens_of, kept)) <= tokens_max
    assert repaired(kept, language="en") == kept
    assert is_paired(kept)
    parts = turns(kept)
    assert [message for part in parts for message in part] == kept
    newest = whole[len(whole) - len(parts) :]
    forms = [part == full for part, full in zip(parts, newest, strict=True)]
    assert forms == sorted(forms)
    for part, full in zip(parts, newest, strict=True):
        assert part in (full, [full[0], full[-1]])


def test_once_a_turn_was_reduced_older_ones_are_too():
    """Calls of an older turn are not kept before a turn that lost its own."""
    said = {"role": "assistant", "content": "a"}
    older, long = [*turn(1), said], [*turn(2), *turn(3)[1:], *turn(4)[1:], said]

    kept = cut([*older, *long], at_most=6)

    assert kept == [older[0], said, long[0], said]


def test_a_turn_is_reduced_to_its_last_answer():
    """What was said on the way to it was no answer yet."""
    on_the_way, answer = ({"role": "assistant", "content": text} for text in ("wait", "42"))
    messages = [*turn(1), on_the_way, answer]

    assert cut(messages, at_most=2) == [messages[0], answer]


def test_the_estimate_counts_what_stands_beside_the_text():
    """Calls and fields of a vendor are sent as well."""
    plain = {"role": "assistant", "content": "x"}

    assert tokens_of({**plain, "reasoning_content": "y" * 300}) > tokens_of(plain) + 100


def test_a_conversation_that_fits_is_left_alone():
    """Nothing is cut that need not be, not even what stands before the first question."""
    messages = [{"role": "assistant", "content": "hello"}, *turn(1)]

    assert cut(messages, at_most=4, tokens_max=1000) == messages


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("urta", True),
        ("uar", False),
        ("ur", False),
        ("urua", False),
        ("uta", False),
        ("urtta", False),
        ("", True),
    ],
)
def test_pairing_is_told(order, expected):
    """A call without its result, a result without its call, and anything between them are found."""
    user, asking, told = turn(1)
    answer = {"role": "assistant", "content": "done"}
    by_letter = {"u": user, "r": asking, "t": told, "a": answer}

    assert is_paired([by_letter[letter] for letter in order]) is expected


def test_results_in_another_order_are_not_paired():
    """Results stand in call order."""
    calls = [{"id": name, "type": "function", "function": {"name": "price"}} for name in "ab"]
    asking = {"role": "assistant", "content": None, "tool_calls": calls}
    results = [{"role": "tool", "tool_call_id": name, "content": "1"} for name in "ab"]

    assert is_paired([asking, *results])
    assert not is_paired([asking, *reversed(results)])


@given(st.text(max_size=300))
def test_the_estimate_is_rather_too_high(text):
    """A token stands for at least one character of any script, and for three letters at most."""
    estimate = tokens_of({"role": "user", "content": text})

    assert estimate >= len(text) / 3
    assert estimate <= len(text.encode("utf-8", "surrogatepass")) + 4


def test_chinese_counts_by_the_character():
    """A Chinese character is about one token, an English word about two."""
    assert tokens_of({"role": "user", "content": "行情" * 100}) == 204
    assert tokens_of({"role": "user", "content": "quote " * 100}) == 204
