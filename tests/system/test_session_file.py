"""What becomes of a conversation when the file, the time or a person comes in between."""

from __future__ import annotations

import json
import sqlite3

from tests.system.processes import until
from tests.system.test_sessions import answers, first_requests, questions
from worker.core.history import is_paired


def write(site, statement, *values):
    """Let another program write into the file."""
    with sqlite3.connect(site.folder / "tasks.db", timeout=10) as file:
        changed = file.execute(statement, values).rowcount
    file.close()
    return changed


async def submitted(site, *words):
    """Hand a task of the session in by the command line, and wait for its answer."""
    ran = await site.run("submit", "--session", "desk", "--wait", *words)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def sent(site, name):
    """What the model was told when a task was first asked for."""
    return first_requests(site)[name][0]


async def test_an_unanswered_call_in_the_file(site):
    """A turn whose result is missing is sent with a synthetic one: no server refuses it."""
    worker = site.start()
    await submitted(site, "t1: look a")
    turn = [m for m in await site.store.conversation("desk") if m["role"] != "tool"]
    assert write(site, "update session_turn set body = ?", json.dumps(turn).encode()) == 1
    await submitted(site, "t2: look b")

    told = sent(site, "t2")
    assert is_paired(told)
    assert [m["role"] for m in told] == ["system", "user", "assistant", "tool", "assistant", "user"]
    assert "interrupted" in told[3]["content"]
    assert "store.error" not in worker.events()


async def test_a_turn_that_cannot_be_read(site):
    """It is left out and the loss is in the log; the session goes on."""
    worker = site.start()
    await submitted(site, "t1: look a")
    assert write(site, "update session_turn set body = x'ff'") == 1
    await submitted(site, "t2: look b")
    await submitted(site, "t3: look c")
    await worker.said("store.error")

    assert questions(sent(site, "t2")) == ["t2"]
    assert questions(sent(site, "t3")) == ["t2", "t3"]


async def test_forgotten_after_its_time(site):
    """Who comes back too late begins anew."""
    site.start(SESSION__TTL_SECONDS="1")
    await submitted(site, "t1: look a")

    async def is_forgotten():
        return not await site.store.conversation("desk")

    await until(is_forgotten, within=5, what="the end of the conversation")
    await submitted(site, "t2: look b")

    assert questions(sent(site, "t2")) == ["t2"]


async def test_cut_to_the_bound(site):
    """Old turns leave whole, the newest stay, and no result stands without its call."""
    site.start(MAX_HISTORY_TOKENS="500", SESSION__RESULT_CHARS="200")
    for number in range(8):
        await submitted(site, f"t{number}: look {'x' * 100}")
    told = sent(site, "t7")

    order = questions(told)
    assert order == [f"t{number}" for number in range(8 - len(order), 8)]
    assert 2 < len(order) < 8
    assert is_paired(told)
    assert sum(len(json.dumps(m)) for m in told[1:-1]) < 500 * 3 + 200


async def test_cut_to_the_window_of_the_model(site):
    """A server that refuses a conversation for its length is told less, and no turn is lost."""
    site.model.window_bytes = 2_500
    site.start()
    for number in range(8):
        await submitted(site, f"t{number}: look {'x' * 100}")
    order = questions(sent(site, "t7"))

    assert order == [f"t{number}" for number in range(8 - len(order), 8)]
    assert 1 < len(order) < 8
    assert 0 < site.model.refused < 6
    assert all(is_paired(messages) for messages in site.model.messages)


async def test_saved_by_another_hand_meanwhile(site):
    """A compare-and-set that is lost is told, and costs neither the answer nor the turn."""
    worker = site.start()
    await submitted(site, "t1: look a")
    await site.submit("t2", "hold go", session_id="desk")
    await site.effect("hold go")
    assert write(site, "update session set version = version + 5") == 1
    site.ask_for("go")
    result = await site.result("t2", within=10)
    await worker.said("session.conflict")

    assert result.answer == "done: t2"
    assert answers(await site.store.conversation("desk")) == ["done: t1", "done: t2"]


async def test_redriven(site):
    """A dead task of a session is told as unanswered; redriven, it answers, and others go on."""
    worker = site.start(QUEUE__MAX_DELIVERIES="1", MODEL_TIMEOUT="30")
    await submitted(site, "t1: look a")
    await site.submit("t2", "hold never", session_id="desk")
    await site.effect("hold never")
    worker.kill()
    site.start(QUEUE__MAX_DELIVERIES="1")
    dead = await site.result("t2", within=10)
    await submitted(site, "t3: look c")
    site.ask_for("never")
    ran = await site.run("dead", "redrive", "t2")

    async def is_answered():
        again = await site.store.result("t2")
        return again and again.answer == "done: t2"

    await until(is_answered, within=10, what="the answer of t2")
    kept = await site.store.conversation("desk")

    assert dead.status != "completed"
    assert ran.returncode == 0, ran.stderr
    assert questions(sent(site, "t3"))[-1] == "t3"
    assert answers(kept) == ["done: t1", "done: t3", "done: t2"]
    assert is_paired(kept)


async def test_status_says_who_has_the_session(site):
    """A task that waits for its session tells for whom, and how many go before it."""
    site.start()
    await site.submit("t1", "hold go", session_id="desk")
    await site.effect("hold go")
    for name in ("t2", "t3"):
        ran = await site.run("submit", "--id", name, "--session", "desk", f"{name}: look b")
        assert ran.returncode == 0, ran.stderr
    told = [await said(site, name, "waits for session") for name in ("t2", "t3")]
    site.ask_for("go")
    await site.result("t3", within=10)

    assert told == [
        "loopworker: waits for session 'desk': task t1 has it\n",
        "loopworker: waits for session 'desk': task t1 has it, 1 more in front\n",
    ]


async def said(site, name, words):
    """What `status` says of a task, once these words are in it: a worker has to look at it first."""

    async def text():
        shown = (await site.run("status", name)).stderr
        return shown if words in shown else None

    return await until(text, within=15, what=f"{words} of {name}")
