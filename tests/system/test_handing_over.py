"""Hand-off rules from outside: the built command, a file of rules, a real model server."""

from __future__ import annotations

import json

from tests.system.processes import until
from tests.system.test_endings import counted

RULES = '''
from worker import handoff_rule

@handoff_rule(on="results", tools=["look"])
def risk(text: str, source: str) -> str | None:
    """Somebody has to look at it."""
    return "level 5 in " + source if "level 5" in text else None

@handoff_rule
def broken(text: str) -> bool:
    """Never says a word."""
    raise RuntimeError("no words")
'''
LEGAL = {"HANDOFF__LEGAL__TEXT": "建议咨询律师"}


def rules(site) -> dict[str, str]:
    """The tools of the site, and a file of rules beside them."""
    file = site.folder / "my_rules.py"
    file.write_text(RULES)
    return {"TOOLS": f"{site.environment()['LOOPWORKER_TOOLS']},{file}"}


async def test_asking_ends_as_not_answered_and_says_which_rule(site):
    """The model's words are on stdout, status, rule and reason on stderr, the exit code is 3."""
    asked = await site.run("ask", "建议咨询律师: look a", **LEGAL)
    as_json = await site.run("ask", "建议咨询律师: look a", "--json", **LEGAL)
    without = await site.run("ask", "建议咨询律师: look a")
    result = json.loads(as_json.stdout)

    assert (asked.returncode, asked.stdout.strip()) == (3, "done: 建议咨询律师")
    assert "not answered: handoff: by rule 'legal', the answer: 建议咨询律师" in asked.stderr
    assert (as_json.returncode, result["status"]) == (3, "handoff")
    assert result["handoff"] == {
        "rule": "legal",
        "reason": "建议咨询律师",
        "source": "answer",
        "tool": None,
        "call_id": None,
    }
    assert result["error"] is None
    assert (without.returncode, without.stdout) == (0, asked.stdout)


async def test_worker_hands_a_run_over_by_a_rule_of_a_file(site):
    """One model call, no further effect; result, metric, log and progress tell of the hand-off."""
    process = site.start(admin=True, **rules(site))
    await process.ready()
    await site.submit("case", "look level 5, book b")
    await site.submit("客户", "look level 5, book b")
    await site.submit("plain", "look level 4, book b")
    case = await site.result("case", within=10)
    chinese = await site.result("客户", within=10)
    plain = await site.result("plain", within=10)
    watched = await site.run("watch", "case")
    status = await site.run("status", "case")
    await process.said("handoff.rule_broken")
    await counted(process, {"handoff": 2, "completed": 1})

    assert (case.status, case.handoff.rule, case.handoff.tool) == ("handoff", "risk", "look")
    assert case.handoff.reason == "level 5 in tool:look"
    assert case.answer == "This needs a person; it has been handed over to one."
    assert chinese.answer == "这个问题需要人工处理,已转交人工。"
    assert (plain.status, [s.symptom for s in plain.diagnosis]) == ("completed", ["broken_rule"])
    assert site.model.counts("case") == {1: 1}
    assert site.effects("book") == ["book b"]
    assert "Handed over to a person: level 5 in tool:look" in watched.stderr
    assert (watched.returncode, status.returncode) == (3, 3)

    def by_rule() -> list[dict]:
        return [line for line in process.lines() if line.get("handoff_rule") == "risk"]

    await until(lambda: len(by_rule()) >= 2, within=5, what="the ends to be logged")
    ends = by_rule()
    assert [(e["event"], e["status"], e["final_status"]) for e in ends] == [
        ("agent.loop.end", "handoff", "success")
    ] * 2
    await site.empty()


async def test_killed_run_is_handed_over_by_whoever_takes_it_up(site):
    """The rule is asked where the result comes in, whichever worker that is."""
    first = site.start(QUEUE__LEASE_SECONDS="1", **rules(site))
    await site.submit("t", "hold go, look level 5, book b")
    await site.effect("hold go")
    first.kill()
    site.ask_for("go")
    second = site.start(**rules(site))
    result = await site.result("t", within=15)

    assert second.alive
    assert (result.status, result.handoff.rule) == ("handoff", "risk")
    assert site.effects("book") == []


async def test_rule_that_cannot_work_ends_the_start_with_one_line(site):
    """Exit 2, the variable and what is wrong; no traceback."""
    process = await site.run("run", HANDOFF__LEGAL__PATTERN="(?<=a)b")
    listed = await site.run("tools", **LEGAL, **rules(site))
    doctor = await site.run("doctor", "--no-probe", **LEGAL)

    assert process.returncode == 2
    assert (
        "LOOPWORKER_HANDOFF__LEGAL__PATTERN: '(?<=a)b' is no regular expression" in process.stderr
    )
    assert "Traceback" not in process.stderr
    assert "legal          answer, results" in listed.stdout
    assert "risk           results of look" in listed.stdout
    assert "1 rule: legal" in doctor.stdout
