"""Calls of a sequential group share a dictionary and cookies, within one run and no further."""

from __future__ import annotations

import asyncio
import gc
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker import Task, ToolContext, tool
from worker.core.events import ModelReplied, Started, StateKept, ToolReturned
from worker.core.messages import Observation
from worker.core.settlement import Deliveries
from worker.model.scripted import answer, calls
from worker.running.groups import STATE_CHARS_MAX, Groups
from worker.store import codec
from worker.telemetry.signals import StateDropped
from worker.telemetry.tell import Telemetry


@tool(sequential="shop", effect="read")
async def add(ctx: ToolContext, item: str) -> str:
    """Add to the basket.

    Args:
        item: What.
    """
    basket = ctx.state.setdefault("basket", [])
    await asyncio.sleep(0)
    basket.append(item)
    return ",".join(basket)


@tool(sequential="other", effect="read")
async def other(ctx: ToolContext) -> str:
    """Another group."""
    ctx.state["n"] = ctx.state.get("n", 0) + 1
    return json.dumps(ctx.state)


@tool(effect="read")
async def alone(ctx: ToolContext) -> str:
    """No group."""
    ctx.state["n"] = ctx.state.get("n", 0) + 1
    return json.dumps(ctx.state)


def adding(*items):
    """A reply that adds items, in order."""
    return calls(*(("add", {"item": item}) for item in items))


def results(worker, request=-1):
    """The tool results that the model has read, in order."""
    return [m.body["content"] for m in worker.model.requests[request].messages if m.role == "tool"]


async def kept_of(worker, task_id):
    """The states in the journal of a run, in order."""
    events = codec.decode_all(worker.store.inner.base.records[task_id].events)
    return [event for event in events if isinstance(event, StateKept)]


TOOLS = [add, other, alone]


async def test_group_shares_its_state_in_call_order_across_steps(start, ask):
    """Whatever the calls of a step are mixed with, each sees what the one before has left."""
    first = calls(
        *(("add", {"item": "a"}), ("other", {}), ("alone", {})),
        *(("add", {"item": "b"}), ("other", {}), ("alone", {}), ("add", {"item": "c"})),
    )
    async with start(first, adding("d"), answer("ok"), tools=TOOLS) as worker:
        await ask(worker, "q")

    assert results(worker) == [
        *("a", '{"n": 1}', '{"n": 1}', "a,b", '{"n": 2}', '{"n": 1}', "a,b,c"),
        "a,b,c,d",
    ]


async def test_runs_share_nothing_with_each_other(start, ask):
    """Side by side or one after the other, of one session and tenant or not: each begins empty."""

    async def two_steps(request):
        done = sum(m.role == "tool" for m in request.messages)
        return adding(f"{done}") if done < 2 else answer("ok")

    async with start(otherwise=two_steps, tools=TOOLS) as worker:
        tasks = [Task(f"t{n}", "q", tenant=f"x{n % 2}") for n in range(12)]
        await asyncio.gather(*(ask(worker, task) for task in tasks))

        states = {
            t.id: [json.loads(e.kept)["state"] for e in await kept_of(worker, t.id)] for t in tasks
        }
        assert all(s == [{"basket": ["0"]}, {"basket": ["0", "1"]}] for s in states.values())
        gc.collect()
        assert [each for each in gc.get_objects() if type(each) is Groups] == []


async def test_failing_call_stops_nobody_and_leaves_what_it_has_written(start, ask):
    """Later calls of the group are made, and see the state that the failed one left."""

    @tool(sequential="shop", effect="read", attempts=1)
    async def fail(ctx: ToolContext) -> str:
        """Fail half way."""
        ctx.state["basket"] = ["half"]
        raise RuntimeError("no")

    script = [calls(("fail", {}), ("add", {"item": "x"})), answer("ok")]
    async with start(*script, tools=[fail, add]) as worker:
        await ask(worker, "q")

    assert results(worker)[1] == "half,x"


async def test_call_that_was_left_behind_changes_nothing_any_more(start, ask):
    """A tool that ignores its time limit goes on with a dictionary of its own."""
    late = asyncio.Event()

    @tool(sequential="shop", effect="read", attempts=1, timeout_seconds=0.05)
    async def deaf(ctx: ToolContext) -> str:
        """Never listen."""
        ctx.state["basket"] = ["deaf"]
        while not late.is_set():
            try:
                await late.wait()
            except asyncio.CancelledError:
                pass
        ctx.state["basket"].append("too late")
        return "x"

    async def then(request):
        late.set()
        await asyncio.sleep(0.02)
        return adding("b")

    script = [calls(("deaf", {}), ("add", {"item": "a"})), then, answer("ok")]
    async with start(*script, tools=[deaf, add]) as worker:
        await ask(worker, "q")

    assert results(worker)[1:] == ["deaf,a", "deaf,a,b"]


async def test_cancel_stops_the_group_before_its_next_call(start):
    """The call under way ends as it likes; those behind it are never made."""
    begun, go_on, made = asyncio.Event(), asyncio.Event(), []

    @tool(sequential="shop", effect="idempotent")
    async def slow(n: int) -> str:
        """Take a while."""
        made.append(n)
        begun.set()
        await go_on.wait()
        return "done"

    script = [calls(*(("slow", {"n": n}) for n in range(4))), answer("ok")]
    async with start(*script, tools=[slow]) as worker:
        task_id = await worker.submit("q")
        await begun.wait()
        await worker.desk.cancel(task_id)
        go_on.set()
        result = await worker.result(task_id, wait_seconds=10)

    assert (result.status, made) == ("cancelled", [0])
    assert [c.source for c in result.tool_calls] == ["live", *["skipped"] * 3]


async def test_run_that_is_drained_within_a_group_begins_its_call_anew(start):
    """What the interrupted call had written is forgotten, what the one before it left is there."""
    begun, seen = asyncio.Event(), []

    @tool(sequential="shop", effect="read", timeout_seconds=60)
    async def hang(ctx: ToolContext) -> str:
        """Hang once."""
        seen.append(dict(ctx.state))
        ctx.state["basket"] = ["interrupted"]
        if len(seen) == 1:
            begun.set()
            await asyncio.Event().wait()
        return "ok"

    script = [calls(("add", {"item": "a"}), ("hang", {})), answer("ok")]
    async with start(*script, tools=[add, hang], worker={"drain_seconds": 0.05}) as worker:
        task_id = await worker.submit("q")
        await begun.wait()
        worker.begin_drain()
        await worker._working
        opened = await worker.store.open(task_id, owner="next", lease_seconds=60)
        end = await worker.runner.run(Task(task_id, "q"), opened, Deliveries(1, 1, 0, 0))

    assert (end.result.status, seen) == ("completed", [{"basket": ["a"]}] * 2)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ((1, 2), "a tuple"),
        ({1: 2}, "a tuple"),
        (object(), "TypeError"),
        (float("nan"), "ValueError"),
        ("x" * STATE_CHARS_MAX, "at most 32768 are kept"),
    ],
    ids=["tuple", "number as key", "object", "nan", "too long"],
)
async def test_what_cannot_be_kept_is_dropped_at_once_and_told(start, ask, value, reason):
    """It would work until the first crash only; the call itself stands, and the state before it."""

    @tool(sequential="shop", effect="read")
    async def spoil(ctx: ToolContext) -> str:
        """Put something in."""
        ctx.state["odd"] = value
        return "done"

    script = [adding("a"), calls(("spoil", {}), ("add", {"item": "b"})), answer("ok")]
    async with start(*script, tools=[spoil, add]) as worker:
        result = await ask(worker, "q")
        told = worker.ears.of(StateDropped)

    assert result.status == "completed"
    assert results(worker) == ["a", "done", "a,b"]
    assert [(each.group, reason in each.reason) for each in told] == [("shop", True)]


# --- the journal --------------------------------------------------------------------------------------


def yesterday(task, *more):
    """A run in the journal whose first call has been made."""
    began = Started(1000.0, {"id": task.id, "input": task.input}, 8, "", "be good", ("add",), "en")
    return [
        *(began, ModelReplied(1000.0, adding("a"))),
        *(ToolReturned(1000.0, "c1", Observation("a")), *more),
    ]


KEPT = StateKept(1000.0, "shop", '{"state":{"basket":["a"]},"cookies":[]}')
OF_ANOTHER_VERSION = StateKept(1000.0, "shop", '{"basket":["a"]}')


@pytest.mark.parametrize(
    ("kept", "seen"),
    [
        ([KEPT], "a,b"),
        ([], "b"),
        ([KEPT, StateKept(1.0, "gone", "{}")], "a,b"),
        ([OF_ANOTHER_VERSION], "b"),
    ],
    ids=["kept", "nothing kept", "a group that is gone", "unreadable"],
)
async def test_run_that_is_taken_up_goes_on_with_its_state(start, ask, kept, seen):
    """The newest state of the journal is lent; without one the group begins empty."""
    task = Task("t1", "q")
    async with start(adding("b"), answer("ok"), tools=TOOLS) as worker:
        opened = await worker.store.open("t1", owner="dead", lease_seconds=0.01)
        await worker.store.append(opened.run, yesterday(task, *kept))
        await worker.store.release(opened.run)
        await ask(worker, task)

    assert results(worker)[-1] == seen


async def test_state_is_written_with_the_observation_and_only_when_it_is_new(start, ask, writes):
    """One write for both, so neither is ever ahead of the other; reading costs no write."""

    @tool(sequential="shop", effect="read")
    async def peek(ctx: ToolContext) -> str:
        """Look."""
        return str(len(ctx.state))

    async with start(adding("a"), calls(("peek", {})), answer("ok"), tools=[add, peek]) as worker:
        batches = writes(worker)
        await ask(worker, "q")

    assert [ToolReturned, StateKept] in batches
    assert sum(batch.count(StateKept) for batch in batches) == 1


async def test_state_may_be_kept_out_of_the_journal(start, ask):
    """Then it lives as long as the worker works on the run."""
    loop = {"group_state": "memory"}
    async with start(adding("a"), adding("b"), answer("ok"), tools=TOOLS, loop=loop) as worker:
        await ask(worker, Task("t1", "q"))

        assert results(worker) == ["a", "a,b"]
        assert await kept_of(worker, "t1") == []


def test_event_does_not_show_what_it_keeps():
    """Neither an error that quotes it nor the groups themselves tell what is in them."""
    groups = Groups({"shop": KEPT.kept}, telemetry=Telemetry())

    assert "basket" not in f"{KEPT} {groups}"
    assert "basket" not in repr(ToolContext(state={"basket": 1}))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
STEPS = st.lists(
    st.tuples(st.sampled_from(["a", "b"]), st.dictionaries(st.text(max_size=3), JSON, max_size=3)),
    max_size=8,
)


@given(STEPS, st.integers(0, 8))
def test_invariant_state_is_what_the_journal_says(steps, cut):
    """Live, or read again after any step: a group is lent the same."""
    journal, alive = {}, Groups({}, telemetry=Telemetry())
    for number, (name, values) in enumerate(steps):
        groups = alive if number < cut else Groups(journal, telemetry=Telemetry())
        context = ToolContext(call_id=str(number))
        groups.lend(name, context)

        assert context.state == json.loads(journal.get(name, '{"state":{}}'))["state"]
        context.state.update(values)
        found = groups.take_back(str(number), at=0.0, is_left_behind=False)
        if found is not None:
            journal[found.group] = found.kept
