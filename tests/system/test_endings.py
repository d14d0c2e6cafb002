"""How runs end, from outside: the built command, a model server, the result and the metrics page."""

from __future__ import annotations

import datetime
import json
import re
import time

from tests.system.processes import ROOT, until

LONG = ", ".join(f"look {letter}" for letter in "abcdefghijkl")
PRICES = {"MODEL": "plan", "PRICES": "plan=1000/2000"}  # 10 and 5 tokens a reply: 0.02


def runs_by_reason(page: str) -> dict[str, int]:
    """The runs that the metrics page counts, by reason; only those that there were."""
    rows = re.findall(r'^loopworker_runs_total\{reason="(\w+)",status="\w+"\} (\d+)', page, re.M)
    return {reason: int(count) for reason, count in rows if int(count)}


def symptoms(page: str) -> dict[str, int]:
    """The symptoms that the metrics page counts; only those that there were."""
    rows = re.findall(r'^loopworker_run_symptoms_total\{symptom="(\w+)"\} (\d+)', page, re.M)
    return {symptom: int(count) for symptom, count in rows if int(count)}


async def counted(process, expected: dict[str, int]) -> str:
    """Hold the runs that were counted against what was expected, and return the page.

    A run is counted just after its result can be read, so this waits until as many are there.
    """

    def page() -> str | None:
        text: str = process.ask("/metrics")[1]
        return text if sum(runs_by_reason(text).values()) >= sum(expected.values()) else None

    counts = await until(page, within=5, what="the ends to be counted")
    assert runs_by_reason(counts) == expected
    return counts


async def test_two_empty_results_end_as_no_information(site):
    """In the language of the question, after two rounds, and counted as a success."""
    process = site.start(admin=True)
    await process.ready()
    await site.submit("查不到", "find a, find b, look c")
    await site.submit("nothing", "find a, find b, look c")
    chinese = await site.result("查不到", within=10)
    english = await site.result("nothing", within=10)

    assert (chinese.status, chinese.answer) == ("no_information", "未找到相关信息")
    assert (english.status, english.answer) == (
        "no_information",
        "No relevant information was found.",
    )
    assert site.effects("look") == []
    page = await counted(process, {"no_information": 2})
    assert 'loopworker_runs_total{reason="no_information",status="success"} 2.0' in page


async def test_a_loop_is_warned_after_three_and_ended_at_the_fourth(site):
    """The model reads the warning before its fourth call; there is no fifth."""
    process = site.start(admin=True)
    await process.ready()
    await site.submit("loop", ", ".join(["look a"] * 7))
    result = await site.result("loop", within=10)

    assert (result.status, result.steps) == ("loop_detected", 4)
    assert site.effects("look") == ["look a"] * 4
    warned = ["returned the same result 3 times" in text for text in site.model.told("loop")]
    assert warned == [False, False, False, True]
    assert [sign.symptom for sign in result.diagnosis] == ["repeated_call"]
    page = await counted(process, {"loop_detected": 1})
    assert symptoms(page) == {"repeated_call": 1}


async def test_invalid_calls_again_and_again_end_as_tool_errors(site):
    """Three replies in a row without a call that could be run."""
    process = site.start(admin=True)
    await process.ready()
    await site.submit("lost", "teleport a, teleport b, teleport c, look d")
    await site.submit("finds-its-way", "teleport a, teleport b, look c, teleport d")
    lost = await site.result("lost", within=10)
    found = await site.result("finds-its-way", within=10)

    assert (lost.status, lost.steps, found.status) == ("tool_errors", 3, "completed")
    assert site.effects() == ["look c"]
    await counted(process, {"tool_errors": 1, "completed": 1})


async def test_budgets_of_tokens_and_of_money_end_a_run(site):
    """With what was used and what was granted; the cost is in the result and in the metrics."""
    process = site.start(admin=True, **PRICES)
    await process.ready()
    await site.submit("tokens", LONG, budget={"tokens": 40})
    await site.submit("money", LONG, budget={"cost": 0.05})
    await site.submit("enough", "look a", budget={"tokens": 1000, "cost": 5})
    tokens = await site.result("tokens", within=10)
    money = await site.result("money", within=10)
    enough = await site.result("enough", within=10)

    assert (tokens.status, tokens.error) == ("budget", "45 tokens used, the budget is 40")
    assert (money.status, money.error) == ("budget", "cost 0.06, the budget is 0.05")
    assert (tokens.cost, money.cost, enough.cost) == (0.06, 0.06, 0.04)
    assert (enough.status, enough.answer) == ("completed", "done: enough")
    assert "% of the budget is left" in site.model.told("tokens")[-1]
    page = await counted(process, {"budget": 2, "completed": 1})
    costs = re.findall(r"^loopworker_model_cost_usd_total\{.*\} (\S+)", page, re.M)
    assert round(sum(map(float, costs)), 6) == 0.16


async def test_a_budget_of_money_without_a_price_is_never_begun(site):
    """Refused by the API, rejected from the queue; the model is not asked."""
    process = site.start(admin=True)
    await process.ready()
    await site.submit("money", LONG, budget={"cost": 0.05})
    result = await site.result("money", within=10)
    refused = await site.run("run", LOOP__COST_MAX="1")

    assert result.status == "rejected"
    assert "budget.cost" in result.error and "LOOPWORKER_PRICES" in result.error
    assert site.model.asked == []
    assert (refused.returncode, "LOOPWORKER_PRICES" in refused.stderr) == (2, True)


async def test_the_deadline_of_a_task_bounds_every_call(site):
    """A tool and a model that hang are cut off when the time of the task is over."""
    process = site.start(admin=True)
    await process.ready()

    def hang(asked):
        if asked.task == "model":
            time.sleep(6)

    site.model.before_reply = hang
    end = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=2)
    fields = {"deadline": end.isoformat()}
    await site.submit("tool", "hold for-ever", **fields)
    await site.submit("model", "look a", **fields)
    tool = await site.result("tool", within=6)
    model = await site.result("model", within=6)

    assert (tool.status, model.status) == ("deadline", "deadline")
    for result in (tool, model):
        assert result.ended_at - result.started_at < 4
    assert site.effects("look") == []
    await counted(process, {"deadline": 2})


async def test_steps_are_bounded_by_a_policy_and_the_reason_is_shown(site):
    """A lookup gets three; the closing turn runs no call; `status` tells the bound and why."""
    process = site.start(admin=True, MAX_STEPS="by_task+adaptive", LOOP__STEPS_CEILING="20")
    await process.ready()
    lookup = {"metadata": {"task_type": "lookup"}}
    await site.submit("lookup", LONG, **lookup)
    await site.submit("failing", "stumble a, stumble b, " + LONG, **lookup)
    await site.submit("own", LONG, max_steps=2)
    await site.submit("above", LONG, max_steps=900)
    results = {
        name: await site.result(name, within=15) for name in ("lookup", "failing", "own", "above")
    }
    seen = {}
    for name in results:
        shown = await site.run("status", name, "--json")
        seen[name] = json.loads(shown.stdout)["steps"]
    told = await site.run("status", "failing")

    assert {name: (r.status, r.steps) for name, r in results.items()} == {
        "lookup": ("max_steps", 3),
        "failing": ("max_steps", 5),
        "own": ("max_steps", 2),
        "above": ("completed", 13),
    }
    assert results["lookup"].tool_calls[-1].source == "skipped"
    assert seen["lookup"]["reason"] == "by_task: lookup (metadata.task_type)"
    assert (seen["own"]["max"], seen["own"]["reason"]) == (2, "task")
    assert seen["above"]["reason"] == "task asked for 900, the ceiling is 20"
    assert [change["max"] for change in seen["failing"]["changes"]] == [4, 5]
    assert "5 of at most 5 steps" in told.stderr
    assert "(by_task: lookup (metadata.task_type); adaptive: 2 of 2 steps failed)" in told.stderr
    assert "[2 steps left.]" in site.model.told("failing")[3]
    assert "last step" in site.model.told("failing")[4]
    assert [s.symptom for s in results["lookup"].diagnosis] == ["no_answer"]
    page = await counted(process, {"max_steps": 3, "completed": 1})
    assert symptoms(page) == {"no_answer": 3}


async def test_an_answer_out_of_nothing_is_diagnosed(site):
    """A clock is offered and not asked; small talk raises no alarm."""
    clock = f"{site.environment()['LOOPWORKER_TOOLS']},{ROOT / 'tools' / 'clock.py'}"
    process = site.start(admin=True, TOOLS=clock)
    await process.ready()
    await site.submit("现在几点了")
    await site.submit("你好")
    sick = await site.result("现在几点了", within=10)
    sound = await site.result("你好", within=10)

    assert (sick.status, sick.answer) == ("completed", "done: 现在几点了")
    assert [sign.symptom for sign in sick.diagnosis] == ["no_call"]
    assert sick.diagnosis[0].hint.startswith("get_current_time fits the question")
    assert sound.diagnosis == ()
    assert symptoms(await counted(process, {"completed": 2})) == {"no_call": 1}
