"""A chain of models: who takes over, for which cause, and what is told of it."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

import pytest

from tests.model.chainworld import (
    BROKE,
    BUSY,
    DOWN,
    SILENT,
    TOKENS,
    TOO_LONG,
    WRONG,
    WRONG_KEY,
    chain_of,
    refuses,
    says,
)
from tests.model.clientworld import ASK
from worker.core.staying import Stay

LONG = {"context_overflow"}
CUT = {"status": 200, "raw_body": '{"choices": [{"message"', "close": "reset", "repeat": True}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    ("fault", "cause", "causes"),
    [
        (DOWN, "error", None),
        (CUT, "error", None),
        (refuses(200, "overloaded", code=503), "error", None),
        (BUSY, "rate_limit", None),
        (BROKE, "quota", None),
        (TOO_LONG, "context_overflow", LONG),
        (WRONG_KEY, "auth", {"auth"}),
        (WRONG, "bad_request", {"bad_request"}),
        (refuses(400, "flagged by content_filter"), "content_filter", {"content_filter"}),
    ],
)
async def test_each_cause_moves_the_call_on(fault, cause, causes, stream):
    """The next model that is declared for the cause answers, and the reply says why."""
    good = says("hello", stream=stream)
    async with chain_of([fault], [good], causes=[causes] if causes else [], stream=stream) as world:
        reply = await world.ask()

        assert (reply.text, reply.switched) == ("hello", cause)
        assert reply.endpoint == world.chain.links[1].model.address
        assert world.moves == [("m1", "success", cause)]
        assert world.servers[1].requests[0].get("stream", False) is stream


@pytest.mark.parametrize(
    ("fault", "status"),
    [
        (TOO_LONG, "context_overflow"),
        (WRONG_KEY, "auth_error"),
        (WRONG, "bad_request"),
        (refuses(400, "flagged by content_filter"), "content_filtered"),
    ],
)
async def test_what_is_about_the_request_moves_only_where_declared(fault, status):
    """A wrong key, a wrong request, a filter, a long history: a usual stand-in is not asked."""
    async with chain_of([fault], [says("hello")]) as world:
        error = await world.fail()

        assert error.status == status
        assert (world.asked[1], world.moves) == (0, [])


async def test_the_next_one_that_is_declared_is_asked_and_not_simply_the_next():
    """An overflow passes over a model of the usual size."""
    async with chain_of(
        [TOO_LONG], [says("small")], [says("large")], causes=[{"error"}, LONG]
    ) as w:
        reply = await w.ask()

        assert (reply.text, w.asked) == ("large", [1, 0, 1])


async def test_one_that_was_passed_over_may_be_asked_for_a_later_cause():
    """Down, then too long for the stand-in: the one for long conversations comes after all."""
    scripts = ([DOWN], [says("large")], [TOO_LONG])
    async with chain_of(*scripts, causes=[LONG, {"error"}]) as world:
        reply = await world.ask()

        assert (reply.text, reply.switched) == ("large", "context_overflow")
        assert world.moves == [("m2", "error", "error"), ("m1", "success", "context_overflow")]


async def test_after_an_overflow_only_those_for_long_conversations_are_asked():
    """The long one is down: a stand-in for errors alone would not hold the conversation."""
    scripts = ([TOO_LONG], [DOWN], [says("small")], [says("large")])
    async with chain_of(*scripts, causes=[LONG, {"error"}, LONG | {"error"}]) as world:
        reply = await world.ask()

        assert (reply.text, reply.switched) == ("large", "context_overflow")
        assert world.asked[2] == 0


async def test_a_reply_that_declines_moves_on_where_declared_and_is_paid_for():
    """Tokens of the reply that was not used are in the usage of the one that was."""
    filtered = says("", reason="content_filter")
    async with chain_of([filtered], [says("hello")], causes=[{"content_filter"}]) as world:
        reply = await world.ask()

        assert (reply.text, reply.switched) == ("hello", "content_filter")
        assert (reply.usage.prompt_tokens, reply.usage.model_calls) == (2 * TOKENS, 2)


async def test_a_reply_that_declines_stands_when_nobody_does_better():
    """It is an ending; the failure of the stand-in is not."""
    filtered = says("", reason="content_filter")
    async with chain_of([filtered], [DOWN], causes=[{"content_filter"}]) as world:
        reply = await world.ask()

        assert (reply.kind, reply.switched) == ("content_filtered", None)
        assert world.moves == [("m1", "error", "content_filter")]


async def test_an_open_breaker_moves_the_call_on_at_once():
    """No request goes to the first model, and no time passes."""
    async with chain_of([DOWN], [says("hello")], backoff_seconds=60.0) as world:
        world.chain.links[0].model.guard.force_open(who="t", why="t")
        began = time.monotonic()
        reply = await world.ask()

        assert (reply.text, world.asked) == ("hello", [0, 1])
        assert time.monotonic() - began < 20.0


async def test_attempts_of_several_calls_open_the_breaker_of_the_first():
    """Each model has its own guard: the first opens, the second stays closed."""
    async with chain_of([DOWN], [says("hello")]) as world:
        for _ in range(4):
            await world.ask()

        first, second = (link.model.guard for link in world.chain.links)
        assert (first.state, second.state) == ("open", "closed")
        assert world.asked == [5, 4]  # fail_max: the rest found the breaker open


async def test_a_throttled_model_is_not_waited_for_while_another_can_be_asked():
    """Thirty seconds of Retry-After are no reason to keep a task waiting."""
    async with chain_of([BUSY], [says("hello")]) as world:
        async with asyncio.timeout(5):
            await world.ask()
            await world.ask()

        assert world.asked == [1, 2]  # the hold keeps the second call away altogether


async def test_the_first_model_leaves_time_for_the_second():
    """A model that hangs takes half of what is left; the deadline holds for all together."""
    async with chain_of([SILENT], [says("hello")]) as world:
        began = time.monotonic()
        reply = await world.ask(replace(ASK, seconds_left=4.0))

        assert (reply.text, reply.switched) == ("hello", "error")
        assert 1.9 < time.monotonic() - began < 3.9


async def test_no_more_than_one_attempt_is_left_for_the_second(monkeypatch):
    """With much time left, the first model may use all of it but one full attempt."""
    asked = []
    async with chain_of([DOWN], [says("hello")], timeout_seconds=30.0) as world:
        for link in world.chain.links:
            reply = link.model.reply

            async def noting(request, reply=reply):
                asked.append(request.seconds_left)
                return await reply(request)

            monkeypatch.setattr(link.model, "reply", noting)
        await world.ask(replace(ASK, seconds_left=600.0))

        assert asked == pytest.approx([570, 600], abs=3)


async def test_the_deadline_ends_the_chain():
    """When all hang, the call ends with the deadline and says so."""
    async with chain_of([SILENT], [SILENT], [says("late")]) as world:
        world.chain.links[2].model.guard.force_open(who="t", why="t")
        error = await world.fail(replace(ASK, seconds_left=1.0))

        assert (error.status, error.transient) == ("deadline", False)
        assert world.asked == [1, 1, 0]


async def test_no_time_is_set_aside_for_a_model_that_cannot_be_asked():
    """The breaker of the stand-in is open: the first model has all the time."""
    slow = {"status": 200, "stream": [{"$sleep_ms": 700}], "repeat": True}
    slow["stream"] += says("slow", stream=True)["stream"]
    slow["headers"] = {"content-type": "text/event-stream"}
    async with chain_of([slow], [says("hello")], stream=True) as world:
        world.chain.links[1].model.guard.force_open(who="t", why="t")
        reply = await world.ask(replace(ASK, seconds_left=1.2))

        assert reply.text == "slow"


async def test_a_model_whose_share_is_used_up_is_not_blamed_for_the_deadline():
    """Nobody else to ask in the end: it timed out, which may pass, and was not the deadline."""
    async with chain_of([SILENT], [WRONG]) as world:
        error = await world.fail(replace(ASK, seconds_left=1.0))

        assert (error.status, error.transient) == ("timeout", True)


async def test_who_stood_in_is_told_though_it_calls_itself_the_same():
    """Two servers of one model tell one name; the reply says which of them made it."""
    twin = says("hello")
    twin["body"] = {**twin["body"], "model": "m0"}
    async with chain_of([DOWN], [twin]) as world:
        reply = await world.ask()

        assert reply.model == "m1 (m0)"


@pytest.mark.parametrize(
    ("faults", "status", "words"),
    [
        ([DOWN, BUSY], "model_unavailable", ["m0: HTTP 503", "; then m1: HTTP 429"]),
        ([BROKE, DOWN], "model_unavailable", ["m0: HTTP 429", "; then m1: HTTP 503"]),
        ([BROKE, WRONG_KEY], "quota_exhausted", ["m0: HTTP 429", "m1: HTTP 401"]),
    ],
)
async def test_the_error_of_a_chain_is_that_which_may_pass(faults, status, words):
    """Whoever settles the task tries again if any model may be back; the text names all."""
    async with chain_of(*([fault] for fault in faults)) as world:
        error = await world.fail()

        assert (error.status, error.attempted) == (status, True)
        assert all(word in str(error) for word in words)


async def test_the_first_that_may_be_back_decides_when_to_try_again():
    """Two hints: the shorter one; nothing was asked, so no delivery is used up."""
    async with chain_of([DOWN], [DOWN]) as world:
        for link, seconds in zip(world.chain.links, (40.0, 20.0), strict=True):
            link.model.guard.admission.advise_open(seconds)
        error = await world.fail()

        assert error.retry_after_seconds == pytest.approx(20, abs=1)
        assert (error.attempted, world.asked) == (False, [0, 0])


async def test_one_that_may_be_back_at_once_is_not_waited_for():
    """A hint of one model says nothing about another that gave none; all attempts count."""
    async with chain_of([DOWN], [DOWN], [DOWN]) as world:
        world.chain.links[0].model.guard.admission.advise_open(40.0)
        error = await world.fail()

        assert (error.retry_after_seconds, error.attempted) == (None, True)
        assert world.asked == [0, 2, 2]


async def test_the_attempts_of_a_reply_are_those_of_all_models():
    """A model that was asked and failed counts as well."""
    async with chain_of([DOWN], [says("hello")]) as world:
        reply = await world.ask()

        assert reply.attempts > world.asked[1] == 1


async def test_a_run_that_was_moved_asks_its_new_model_first():
    """The first one is asked again only when the new one fails."""
    async with chain_of([says("first")], [says("second", repeat=False), DOWN]) as world:
        stay = Stay(world.chain.links[1].model.address, "error", 0.0)
        moved = await world.ask(replace(ASK, stay=stay))
        back = await world.ask(replace(ASK, stay=stay))

        assert (moved.text, moved.switched) == ("second", None)
        assert (back.text, back.switched, world.asked[0]) == ("first", "error", 1)


async def test_a_run_that_was_too_long_never_goes_back():
    """The first model would refuse it again, so it is left alone even when the other fails."""
    async with chain_of([says("first")], [DOWN], causes=[LONG]) as world:
        stay = Stay(world.chain.links[1].model.address, "context_overflow", 0.0)
        error = await world.fail(replace(ASK, stay=stay))

        assert (error.status, world.asked[0]) == ("model_unavailable", 0)


async def test_a_move_to_a_model_that_left_with_a_deploy_is_forgotten():
    """The chain begins where it begins."""
    async with chain_of([says("first")], [says("second")]) as world:
        reply = await world.ask(replace(ASK, stay=Stay("gone@nowhere", "context_overflow", 0.0)))

        assert reply.text == "first"


async def test_cancelling_leaves_the_chain_at_once():
    """Nobody else is asked for a caller who has gone."""
    async with chain_of([SILENT], [says("hello")]) as world:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await world.ask()

        assert (world.asked[1], world.moves) == (0, [])
