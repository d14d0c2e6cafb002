"""Hand-off rules from the settings and from tool files, in whole runs."""

from __future__ import annotations

import json
import threading
import time

import pytest

from worker import Task, ToolError, handoff_rule, tool
from worker.core.errors import ConfigError
from worker.core.events import HandedOff, ModelReplied, Started, ToolReturned
from worker.core.messages import Observation
from worker.model.scripted import answer, calls
from worker.running import handoffs
from worker.telemetry.signals import RuleBroken, RunLoop


@tool
async def look(name: str) -> str:
    """Look at a customer.

    Args:
        name: Whose.
    """
    return f"{name}: risk level 5"


@tool
async def note(name: str) -> str:
    """Read the notes.

    Args:
        name: Whose.
    """
    return "nothing to see"


LOOK, NOTE = calls(("look", {"name": "A"})), calls(("note", {"name": "A"}))
LEGAL = {"legal": {"text": "建议咨询律师", "on": "answer"}}
TOOLS = [look, note]


async def run(start, ask, script, question="q", **more):
    """One run and its worker."""
    async with start(*script, **{"tools": TOOLS, **more}) as worker:
        return await ask(worker, question), worker


async def test_text_in_the_answer_hands_the_run_over(start, ask):
    """The model's words stand; status, metric reason and log say handoff, and it counts as well."""
    result, worker = await run(start, ask, [answer("您好,建议咨询律师。")], handoff=LEGAL)
    end = worker.ears.of(RunLoop, "settled")[0]

    assert (result.status, result.answer) == ("handoff", "您好,建议咨询律师。")
    assert (result.handoff.rule, result.handoff.source) == ("legal", "answer")
    assert result.handoff.reason == "建议咨询律师"
    assert (end.status, end.final_status, end.handoff_rule) == ("handoff", "success", "legal")


async def test_rule_on_a_result_ends_the_run_before_the_next_model_call(start, ask):
    """The model is asked once; the text for the caller is ours, in the caller's language."""
    handoff = {"risk": {"pattern": r"risk level [4-9]\b", "reason": "高风险客户"}}
    result, worker = await run(start, ask, [LOOK, answer("no")], "客户 A 的情况?", handoff=handoff)

    assert (result.status, result.steps) == ("handoff", 1)
    assert "已转交人工" in result.answer
    assert len(worker.model.requests) == 1
    assert (result.handoff.rule, result.handoff.tool) == ("risk", "look")
    assert (result.handoff.reason, result.handoff.call_id) == ("高风险客户", "c1")


@pytest.mark.parametrize(
    ("rule", "status"),
    [
        ({"text": "RISK LEVEL"}, "handoff"),
        ({"text": "ｒｉｓｋ level"}, "handoff"),
        ({"text": "risk", "on": "answer"}, "completed"),
        ({"text": "risk", "on": "results"}, "handoff"),
        ({"text": "risk", "tools": ["look"]}, "handoff"),
        ({"text": "risk", "tools": ["note"]}, "completed"),
        ({"text": "all is well", "tools": ["note"]}, "handoff"),
        ({"text": "all is well", "on": "results"}, "completed"),
        ({"text": "risk", "enabled": False}, "completed"),
        ({"pattern": "RISK"}, "completed"),
        ({"pattern": "(?i)RISK"}, "handoff"),
        ({"pattern": "^A: risk level \\d$"}, "handoff"),
        ({"pattern": "(a+)+$|(.*)*z"}, "completed"),
    ],
    ids=str,
)
async def test_rule_looks_where_it_is_told_to(start, ask, rule, status):
    """On the answer, on results, on those of some tools; texts without regard to case and width."""
    script = [LOOK, answer("All is well.")]
    result, _ = await run(start, ask, script, handoff={"r": rule})

    assert result.status == status


async def test_asker_is_not_shown_a_pattern(start, ask):
    """A rule without a reason of its own gives the text that it looks for, or else its name."""
    for rule, reason in (({"text": "Risk level"}, "Risk level"), ({"pattern": "risk l.*"}, "r")):
        result, _ = await run(start, ask, [LOOK, answer("no")], handoff={"r": rule})

        assert result.handoff.reason == reason


async def test_tools_own_words_count_and_ours_do_not(start, ask):
    """A tool's error and its stub are looked at; what we say of a refused call is not."""

    @tool
    async def refuse() -> str:
        """Refuse."""
        raise ToolError("ask a manager")

    @tool(stub="请联系经理", attempts=1)
    async def broken() -> str:
        """Broken."""
        raise RuntimeError("down")

    tools = [refuse, broken]
    by_error, _ = await run(
        start,
        ask,
        [calls(("refuse", {})), answer("ok")],
        tools=tools,
        handoff={"r": {"text": "manager"}},
    )
    by_stub, _ = await run(
        start,
        ask,
        [calls(("broken", {})), answer("ok")],
        tools=tools,
        handoff={"r": {"text": "经理"}},
    )
    not_ours, _ = await run(
        start,
        ask,
        [calls(("broken", {})), answer("ok")],
        tools=tools,
        handoff={"r": {"text": "unavailable"}},
    )

    assert (by_error.status, by_error.handoff.tool) == ("handoff", "refuse")
    assert (by_stub.status, by_stub.degraded[0].source) == ("handoff", "stub")
    assert "请联系经理" in by_stub.answer
    assert not_ours.status == "completed"


async def test_what_has_not_begun_is_left_to_the_person(start, ask):
    """In a sequential group the calls after the one that matched are not made, and that is said."""
    made = []

    @tool(sequential="case", effect="read")
    async def check(name: str) -> str:
        """Check."""
        made.append(name)
        return "risk level 5" if name == "b" else "fine"

    script = [calls(*(("check", {"name": n}) for n in "abc")), answer("no")]
    result, _ = await run(start, ask, script, tools=[check], handoff={"r": {"text": "risk"}})

    assert made == ["a", "b"]
    assert [c.source for c in result.tool_calls] == ["live", "live", "skipped"]
    assert "check was not run" in result.answer


# --- functions ----------------------------------------------------------------------------------------


async def test_function_of_a_tool_file_decides(start, ask):
    """It is told where the text stands, in a thread, and its reason is the result's."""
    asked = []

    @handoff_rule
    def risky(text, source):
        asked.append((text, source, threading.current_thread() is threading.main_thread()))
        return f"level in {source}" if source == "tool:look" else False

    result, worker = await run(start, ask, [NOTE, LOOK, answer("no")], tools=[*TOOLS, risky])

    assert asked == [
        ("nothing to see", "tool:note", False),
        ("A: risk level 5", "tool:look", False),
    ]
    assert (result.status, result.handoff.rule) == ("handoff", "risky")
    assert result.handoff.reason == "level in tool:look"
    assert worker.ears.of(RuleBroken) == []


async def test_operations_narrow_a_function_or_switch_it_off(start, ask):
    """Settings of its name win over what the decorator says; case of the name aside."""

    @handoff_rule(on="results")
    def Risky(text):
        return True

    async def status(**said):
        script = [LOOK, answer("well")]
        result, _ = await run(start, ask, script, tools=[*TOOLS, Risky], handoff={"risky": said})
        return result.status, result.handoff and result.handoff.reason

    assert await status() == ("handoff", "Risky")
    assert await status(reason="because") == ("handoff", "because")
    assert await status(tools=["note"]) == ("completed", None)
    assert await status(enabled=False) == ("completed", None)
    assert await status(on="answer") == ("handoff", "Risky")


async def test_secrets_in_a_reason_do_not_go_out(start, ask):
    """A reason is text of somebody else's: redacted, and cut."""

    @handoff_rule
    def leaky(text):
        return "key sk-proj-abcdefghijklmnopqrstuvwxyz0123456789 " + "x" * 1000

    result, _ = await run(start, ask, [answer("ok")], tools=[leaky])

    assert "sk-proj-abcdef" not in result.handoff.reason
    assert len(result.handoff.reason) <= 300


class Speechless(Exception):
    """It cannot say what it is."""

    def __str__(self):
        raise KeyError


@pytest.mark.parametrize("error", [ValueError("odd"), SystemExit(3), Speechless()], ids=repr)
async def test_rule_that_raises_costs_nothing_but_itself(start, ask, error):
    """The run is answered, the others are asked, and result, log and metric tell of the broken one."""

    @handoff_rule
    def broken(text):
        raise error

    @handoff_rule
    def later(text):
        return "5" in text

    tools = [*TOOLS, broken, later]
    well, worker = await run(start, ask, [NOTE, answer("ok")], tools=tools)
    handed, _ = await run(start, ask, [LOOK], tools=tools)

    assert (well.status, well.answer, handed.status) == ("completed", "ok", "handoff")
    assert [(s.symptom, "broken" in s.hint) for s in well.diagnosis] == [("broken_rule", True)]
    assert {(told.rule, told.source) for told in worker.ears.of(RuleBroken)} == {
        ("broken", "answer"),
        ("broken", "tool:note"),
    }
    page = worker.seen.metrics.render()[0].decode()
    assert 'loopworker_run_symptoms_total{symptom="broken_rule"} 1.0' in page


async def test_rule_that_hangs_is_not_waited_for(start, ask, monkeypatch):
    """After its time it counts as broken; the loop served everybody meanwhile."""
    monkeypatch.setattr(handoffs, "RULE_SECONDS", 0.05)
    let_go = threading.Event()

    @handoff_rule(on="answer")
    def hangs(text):
        return let_go.wait(20)

    began = time.monotonic()
    try:
        result, worker = await run(start, ask, [answer("ok")], tools=[hangs])
    finally:
        let_go.set()

    assert (result.status, result.answer) == ("completed", "ok")
    assert time.monotonic() - began < 15
    assert [told.error_type for told in worker.ears.of(RuleBroken)] == ["AttemptTimeout"]


# --- the journal --------------------------------------------------------------------------------------


async def test_what_a_rule_found_is_in_the_same_write_as_the_result(start, ask, writes):
    """No crash can come between: the batch holds both, and the ending holds the answer."""
    async with start(LOOK, tools=TOOLS, handoff={"r": {"text": "risk"}}) as worker:
        batches = writes(worker)
        await ask(worker, "q")

    assert [ToolReturned, HandedOff] in batches


def journal(*events, task):
    """The events of a run as a worker of yesterday wrote them."""
    began = Started(1000.0, {"id": task.id, "input": task.input}, 8, "", "be good", ("look",), "en")
    return [began, ModelReplied(1000.0, LOOK), *events]


RETURNED = ToolReturned(1000.0, "c1", Observation("A: risk level 5"))


@pytest.mark.parametrize(
    ("found", "rules", "status"),
    [
        ([RETURNED, HandedOff(1000.0, "old", "x", "result", "c1")], {}, "handoff"),
        ([RETURNED], {"new": {"text": "risk"}}, "completed"),
    ],
    ids=["the rule is gone", "the rule is new"],
)
async def test_deploy_that_changes_the_rules_changes_no_decision(start, ask, found, rules, status):
    """What was found stands without its rule; what was passed is not looked at again."""
    task = Task("t1", "q")
    async with start(answer("well"), tools=TOOLS, handoff=rules) as worker:
        opened = await worker.store.open("t1", owner="dead", lease_seconds=0.01)
        await worker.store.append(opened.run, journal(*found, task=task))
        await worker.store.release(opened.run)
        result = await ask(worker, task)

    assert result.status == status
    assert len(worker.model.requests) == (0 if status == "handoff" else 1)


# --- settings -----------------------------------------------------------------------------------------


@handoff_rule
def mine(text):
    """Mine."""
    return False


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ({"r": {}}, "LOOPWORKER_HANDOFF__R: names neither TEXT nor PATTERN"),
        ({"r": {"text": "a", "pattern": "b"}}, "LOOPWORKER_HANDOFF__R: names both"),
        ({"r": {"text": " \u3000"}}, "LOOPWORKER_HANDOFF__R: .* is blank"),
        ({"r": {"pattern": "  "}}, "LOOPWORKER_HANDOFF__R: .* is blank"),
        ({"r": {"pattern": "("}}, "LOOPWORKER_HANDOFF__R__PATTERN: '\\(' is no regular expression"),
        ({"r": {"pattern": "(?<!a)b"}}, "without look-around, back-references"),
        ({"r": {"pattern": "(a)\\1"}}, "LOOPWORKER_HANDOFF__R__PATTERN"),
        ({"r": {"pattern": "(a{99}){99}{99}"}}, "huge repetitions"),
        ({"r": {"pattern": "[a-z]{50000}"}}, "huge repetitions"),
        (
            {"r": {"text": "a", "tools": ["lok"]}},
            "R__TOOLS: there is no tool 'lok'; there are: look",
        ),
        ({"mine": {"text": "a"}}, "test_handoffs.py:.* has a rule of that name"),
        ({"a b": {"text": "a"}}, "a rule's name is made of"),
        ({f"r{n}": {"text": "a"} for n in range(101)}, "102 rules, at most 100"),
    ],
    ids=lambda value: value if isinstance(value, str) else json.dumps(value)[:40],
)
async def test_rule_that_cannot_work_stops_the_start(start, rules, said):
    """One line names the setting and what is wrong with it."""
    async with start(tools=[*TOOLS, mine], handoff=rules, running=False) as worker:
        with pytest.raises(ConfigError, match=said):
            await worker.start()


async def test_rule_of_a_file_that_names_no_tool_stops_the_start(start):
    """A typing error in the decorator is found before the rule is needed."""
    rule = handoff_rule(name="r", tools=["lok"])(lambda text: True)
    async with start(tools=[*TOOLS, rule], running=False) as worker:
        with pytest.raises(ConfigError, match="rule 'r': there is no tool 'lok'; there are: look"):
            await worker.start()


def test_pattern_that_would_run_away_is_linear():
    """What hangs a backtracking engine for ever takes no time here."""
    from worker.toolkit.patterns import compile_pattern

    holds = compile_pattern("^(([a-z])+.)+[A-Z]([a-z])+$|(x+x+)+y", where="r")
    began = time.process_time()

    assert not holds("a" * 100_000 + "x" * 100_000)
    assert not holds("half a pair \ud800")
    assert time.process_time() - began < 2
