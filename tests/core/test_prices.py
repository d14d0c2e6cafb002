"""What replies cost, which entry of the list they are paid by, and budgets that hold by it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.core.effects import CallModel, Finish
from worker.core.errors import ConfigError, TaskInvalid
from worker.core.events import ModelReplied, Started, ToolReturned
from worker.core.limits import Limits, Status
from worker.core.loop import Loop
from worker.core.messages import Observation, Reply, ReplyKind, ToolCall, Usage
from worker.core.opening import limits_of
from worker.core.prices import PriceList, read_entry
from worker.core.task import Budget, Task
from worker.intake import check_cost
from worker.model.usage import metered

USAGE = Usage(model_calls=1, prompt_tokens=1000, completion_tokens=10, cached_tokens=400, cost=9.0)


def cost(entries, model, requested="asked", usage=USAGE):
    """What a reply costs by these entries."""
    return PriceList(entries).cost_of(usage, model=model, requested=requested)


def test_cached_tokens_are_part_of_the_prompt_and_may_cost_less():
    """Per million tokens; without a price of their own they cost what the rest does."""
    assert cost(["m=10/100"], "m") == pytest.approx((1000 * 10 + 10 * 100) / 1e6)
    assert cost(["m=10/100/1"], "m") == pytest.approx((600 * 10 + 400 + 10 * 100) / 1e6)


def test_more_cached_than_prompt_tokens_is_no_refund():
    """An endpoint that counts them beside the prompt is not paid less than nothing for it."""
    usage = Usage(prompt_tokens=100, cached_tokens=400)

    assert cost(["m=10/0/1"], "m", usage=usage) == pytest.approx(400 / 1e6)


def test_a_reply_of_an_alias_is_paid_by_the_name_that_was_asked_for():
    """A server may call the model by a name that no price list has."""
    reply = Reply(ReplyKind.ANSWER, "x", {}, usage=USAGE, model="build-7f3a")

    paid = metered(reply, PriceList(["m=10/100"]), requested="m", sent_bytes=1)

    assert paid.cost == pytest.approx((1000 * 10 + 10 * 100) / 1e6)


def test_costs_carry_no_noise_of_binary_fractions():
    """A tenth of a cent is written as one."""
    usage = Usage(prompt_tokens=1000, completion_tokens=1000)

    assert cost(["m=0.1/0.2"], "m", usage=usage) == 0.0003


@pytest.mark.parametrize(
    ("model", "requested", "price"),
    [
        ("gpt-4o-mini", "x", 1),  # written out goes before a beginning
        ("GPT-4o-Mini", "x", 1),  # whatever the case
        ("gpt-4o-2026-01-01", "x", 3),  # the longest beginning
        ("gpt-5", "x", 2),
        ("unknown", "gpt-4o-mini", 1),  # by the name that was asked for
        ("gpt-4o-mini-2024-07-18", "gpt-4o-mini", 3),  # what the endpoint told goes first
        ("", "gpt-5", 2),
        ("unknown", "nothing", 7),  # the price of every model is the last resort
    ],
)
def test_the_entry_is_the_most_telling_one(model, requested, price):
    """First the name that the endpoint told, then the one asked for; `*` last."""
    entries = ["gpt-*=2/0", "gpt-4o*=3/0", "gpt-4o-mini=1/0", "*=7/0"]
    usage = Usage(prompt_tokens=1_000_000)

    assert cost(entries, model, requested, usage) == price


def test_without_a_price_the_endpoint_is_believed_and_told_asks_it_outright():
    """A list says what operations know, and goes before what a server claims."""
    assert cost([], "m") == 9.0
    assert cost(["m=told"], "m") == 9.0
    assert cost(["m=told"], "m", usage=Usage(prompt_tokens=5)) is None
    assert cost(["other=1/1"], "m") == 9.0
    assert cost(["m=0/0"], "m") == 0.0


@pytest.mark.parametrize(
    "entry",
    [
        *("", "m", "m=", "=1/2", "m=1", "m=1/2/3/4", "m=a/b", "m=-1/2", "m=nan/1", "m=1/inf"),
        *("a*b=1/2", "m=1e12/1", "m=1,5/2"),
    ],
)
def test_what_is_no_price_is_refused_with_the_form(entry):
    """The entry and how it is written."""
    with pytest.raises(ValueError, match="PROMPT/COMPLETION"):
        read_entry(entry)


def test_two_prices_of_one_model_are_refused():
    """Nobody could say which one counts."""
    with pytest.raises(ValueError, match="two prices"):
        PriceList(["m=1/2", "M=3/4"])


@given(st.lists(st.tuples(*[st.integers(0, 10**7)] * 3), max_size=6))
def test_the_cost_of_a_run_is_the_sum_of_its_replies(rows):
    """Never negative, and the same whether it is added up or taken at once."""
    prices = PriceList(["m=3/15/0.3"])
    total = Usage()
    for prompt, completion, cached in rows:
        usage = Usage(1, prompt, completion, min(cached, prompt))
        reply = Reply(ReplyKind.ANSWER, "x", {"content": "x"}, usage=usage, model="m")
        total = total.plus(metered(reply, prices, requested="m", sent_bytes=100))
    expected = sum((p - min(c, p)) * 3 + min(c, p) * 0.3 + o * 15 for p, o, c in rows) / 1e6

    if rows and all(p or o for p, o, _ in rows):
        assert total.cost == pytest.approx(expected, abs=1e-9)


# --- budgets -------------------------------------------------------------------------------------


def spending(*usages, model="m", language="en", **limits):
    """A loop in which each reply with a call used so much."""
    task = {"id": "t", "input": "q"}
    loop = Loop(Limits(**limits))
    loop.apply(Started(0.0, task, 8, "settings", "s", ("price",), language))
    for number, usage in enumerate(usages):
        call = ToolCall(f"c{number}", "price", {"n": number})
        wire = {"id": call.id, "type": "function", "function": {"name": "price", "arguments": "{}"}}
        message = {"role": "assistant", "content": None, "tool_calls": [wire]}
        reply = Reply(ReplyKind.CALLS, "", message, (call,), usage, model=model)
        loop.apply(ModelReplied(0.0, reply))
        loop.apply(ToolReturned(0.0, call.id, Observation(f"{number}")))
    return loop


def test_a_budget_of_money_ends_the_run():
    """With what was spent and what was granted."""
    half = Usage(1, 10, 5, cost=0.5)

    assert isinstance(spending(half, cost=1.0).next(0.0), CallModel)
    assert spending(half, half, cost=1.0).next(0.0) == Finish(
        Status.BUDGET, "", "cost 1, the budget is 1"
    )


def test_a_cost_that_nobody_knows_ends_a_run_with_a_budget_of_money():
    """It is not taken for nothing, not even when other replies had a price."""
    known, unknown = Usage(1, 10, 5, cost=0.1), Usage(1, 10, 5)

    effect = spending(known, unknown, model="mystery", cost=1.0).next(0.0)

    assert effect.status == Status.BUDGET
    assert "'mystery' is not known (LOOPWORKER_PRICES)" in effect.error
    assert isinstance(spending(unknown).next(0.0), CallModel)


def test_a_reply_that_was_declined_and_has_no_price_is_not_forgotten():
    """It is part of the next one's usage, whose own cost is known."""
    reply = Reply(ReplyKind.REFUSED, "no", {"content": "no"}, usage=Usage(1, 10, 5), model="spare")
    declined = metered(reply, PriceList(["m=1/1"]), requested="spare", sent_bytes=9)
    usage = declined.plus(Usage(1, 10, 5, cost=0.1))

    assert (usage.cost, usage.cost_is_partial) == (0.1, True)
    assert spending(usage, cost=1.0).next(0.0).status == Status.BUDGET
    assert isinstance(spending(usage).next(0.0), CallModel)


def test_an_endpoint_without_usage_spends_guessed_tokens():
    """A budget of tokens holds though nobody counts; the guess is not shown as a count."""
    reply = Reply(ReplyKind.ANSWER, "x", {"role": "assistant", "content": "好" * 80}, model="m")

    usage = metered(reply, PriceList(["m=1/1"]), requested="m", sent_bytes=4000)

    assert (usage.prompt_tokens, usage.completion_tokens) == (0, 0)
    assert 1080 <= usage.guessed_tokens <= 1120
    assert usage.cost == pytest.approx(usage.guessed_tokens / 1e6)
    effect = spending(usage, tokens=1000).next(0.0)
    assert effect.status == Status.BUDGET
    assert "guessed in part: the endpoint tells no usage" in effect.error


def test_the_settings_bound_every_run_and_a_task_may_only_lower_them():
    """The smaller of the two holds."""
    limits = Limits(tokens=1000, cost=2.0)

    lower = limits_of(Task("t", "q", budget=Budget(tokens=10, cost=0.5)), limits)
    higher = limits_of(Task("t", "q", budget=Budget(tokens=10**6, cost=50.0)), limits)
    own = limits_of(Task("t", "q", budget=Budget(tokens=10)), Limits())

    assert (lower.tokens, lower.cost) == (10, 0.5)
    assert (higher.tokens, higher.cost) == (1000, 2.0)
    assert (own.tokens, own.cost) == (10, None)


@pytest.mark.parametrize(
    ("language", "told"), [("en", "About 20% of the budget"), ("zh", "预算约剩 20%")]
)
def test_the_model_is_told_when_little_of_a_budget_is_left(language, told):
    """In the language of the question, and not before."""
    little = spending(Usage(1, 80, 0, cost=0.1), tokens=100, language=language).next(0.0)
    plenty = spending(Usage(1, 20, 0), tokens=100, language=language).next(0.0)

    assert told in little.messages[-1].body["content"]
    assert "20%" not in plenty.messages[-1].body["content"]


def test_the_model_is_told_when_little_time_is_left():
    """A quarter of the time before the end."""
    task = {"id": "t", "input": "q"}
    loop = Loop(Limits())
    loop.apply(Started(0.0, task, 8, "s", "s", ("price",), "en", deadline=100.0))
    call = ToolCall("c", "price", {})
    wire = {"id": "c", "type": "function", "function": {"name": "price", "arguments": "{}"}}
    message = {"role": "assistant", "content": None, "tool_calls": [wire]}
    loop.apply(ModelReplied(0.0, Reply(ReplyKind.CALLS, "", message, (call,))))
    loop.apply(ToolReturned(0.0, "c", Observation("1")))

    assert loop.next(50.0).messages[-1].body["content"] == "1"
    assert "About 20 s are left" in loop.next(80.0).messages[-1].body["content"]


def test_a_budget_of_money_needs_a_price():
    """A task is refused before anything is spent; with a price it is taken."""
    task = Task("t", "q", budget=Budget(cost=1.0))

    with pytest.raises(TaskInvalid, match="no price of 'm'") as refused:
        check_cost(task, unpriced=("m",), model="m")

    assert refused.value.field == "budget.cost"
    check_cost(task, unpriced=("fallback",), model="m")
    check_cost(Task("t", "q"), unpriced=("m",), model="m")


def test_prices_are_settings():
    """Commas between them in a variable, a list in a file; wrong ones name the entry."""
    from worker.configuration import load

    environ = {"LOOPWORKER_MODEL": "m-2", "LOOPWORKER_PRICES": "m-*=1/2, other=told"}
    settings = load(environ).settings

    assert settings.prices == ("m-*=1/2", "other=told")
    assert settings.unpriced_models() == ()
    assert load(environ | {"LOOPWORKER_MODEL": "x"}).settings.unpriced_models() == ("x",)
    with pytest.raises(ConfigError, match=r"^LOOPWORKER_PRICES: 'dear' is no price;") as refused:
        load({"LOOPWORKER_PRICES": "dear"})
    assert str(refused.value).count("dear") == 1  # what was given is not said twice


def test_a_worker_wide_budget_of_money_needs_a_price_as_well():
    """Refused at the start, with what to write."""
    from worker.configuration import load

    environ = {"LOOPWORKER_MODEL": "m", "LOOPWORKER_LOOP__COST_MAX": "0.5"}

    with pytest.raises(ConfigError, match="LOOPWORKER_PRICES has no price of m"):
        load(environ)
    limits = load(environ | {"LOOPWORKER_PRICES": "*=1/2"}).settings.limits()
    assert limits.cost == 0.5
