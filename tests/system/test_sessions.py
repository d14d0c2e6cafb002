"""Conversations across processes: what the next turn is told, whatever died in between."""

from __future__ import annotations

import random
import signal
from functools import partial

import pytest

from tests.system.processes import CRASHING, until
from worker.core.history import is_paired

LEASE = 1.0
RECOVERY = LEASE + 6.0


def questions(messages):
    """The names of the tasks that were asked in a conversation, in order."""
    return [m["content"].partition(":")[0] for m in messages if m["role"] == "user"]


def answers(messages):
    """What was answered in it."""
    told = [m["content"] for m in messages if m["role"] == "assistant" and m["content"]]
    return [text.partition("\n")[0] for text in told]


def first_requests(site):
    """For each task the messages of every request for its first step."""
    found = {}
    for asked, messages in zip(site.model.asked, site.model.messages, strict=True):
        if asked.step == 1:
            found.setdefault(asked.task, []).append(messages)
    return found


async def test_the_second_turn_knows_the_first(site):
    """Handed in by the command line, answered by a worker: the model is told what was said."""
    worker = site.start()
    for words in (("t1: look a",), ("t2: look b",)):
        ran = await site.run("submit", "--session", "desk", "--wait", *words)
        assert ran.returncode == 0, ran.stderr
    asked = await site.run("ask", "--session", "desk", "t3: look c")
    told = {name: sent[0] for name, sent in first_requests(site).items()}
    await worker.said("session.saved")

    assert asked.stdout == "done: t3\n"
    assert questions(told["t2"]) == ["t1", "t2"]
    assert answers(told["t2"]) == ["done: t1"]
    assert [m["content"] for m in told["t2"] if m["role"] == "tool"] == ["looked at a"]
    assert questions(told["t3"]) == ["t1", "t2", "t3"]
    assert all(is_paired(messages) for messages in site.model.messages)


# Where the first task's worker dies, and how often its first step is asked for.
POINTS = {
    "before it is opened": ("claim", 1),
    "session taken": ("load_session", 1),
    "first reply saved": ("append:1", 1),
    "result saved": ("append:3", 1),
    "turn saved": ("save_session", 1),
    "acked": ("ack", 1),
}


@pytest.mark.parametrize("point", POINTS)
async def test_killed_between_turns(site, point):
    """Whatever is killed, the conversation is whole turns in order, each of them once."""
    where, asked = POINTS[point]
    await site.submit("t1", "book a", session_id="s")
    await site.submit("t2", "look b", session_id="s")
    crashed = site.start((*CRASHING, where))
    assert await crashed.ended(within=15) == -signal.SIGKILL
    workers = [site.start() for _ in range(2)]
    results = [await site.result(name, within=RECOVERY + 2) for name in ("t1", "t2")]
    await site.empty()
    kept = await site.store.conversation("s")
    for worker in workers:
        await worker.said("worker.ready")

    assert [result.status for result in results] == ["completed", "completed"]
    assert questions(kept) == ["t1", "t2"]
    assert answers(kept)[0].startswith("done: t1")
    assert is_paired(kept)
    assert len(first_requests(site)["t1"]) == asked
    assert [questions(sent) for sent in first_requests(site)["t2"]] == [["t1", "t2"]]
    assert site.effects("book") == ["book a"]


async def test_who_waits_is_answered_by_another_worker(site):
    """One worker has the session, the other is told so, and comes at once when it is free."""
    first = site.start(CONCURRENCY="1")
    await site.submit("t1", "hold go", session_id="s")
    await site.effect("hold go")
    second = site.start()
    await site.submit("t2", "look b", session_id="s")
    await site.submit("t3", "look c")
    await second.said("session.busy")
    await site.result("t3", within=10)
    early = site.effects("look")
    site.ask_for("go")
    await site.result("t2", within=10)
    lines = [line for line in second.lines() if line["event"] == "session.busy"]

    assert early == ["look c"]
    assert site.effects() == ["hold go", "look c", "look b"]
    assert {(line["task_id"], line["session_id"], line["ahead"]) for line in lines} == {
        ("t2", "s", 0)
    }
    assert len(lines) < 12
    assert "session.busy" not in first.events()


async def test_paused_for_longer_than_its_lease(site):
    """A worker that wakes up after another has answered adds nothing to the conversation."""
    first = site.start(CONCURRENCY="1")
    await site.submit("t1", "hold go, book a", session_id="s")
    await site.effect("hold go")
    first.freeze()
    await site.submit("t2", "look b", session_id="s")
    site.ask_for("go")
    second = site.start()
    await site.result("t2", within=RECOVERY + 2)
    first.send(signal.SIGCONT)
    await first.said("write.fenced")
    kept = await site.store.conversation("s")

    assert questions(kept) == ["t1", "t2"]
    assert answers(kept) == ["done: t1", "done: t2"]
    assert site.effects("book") == ["book a"]
    assert "run.taken_over" in second.events()


async def test_crowd_in_few_sessions(site):
    """Many workers, some of them killed: every conversation is as if there had been one."""
    dice = random.Random(7)
    settings = {"CONCURRENCY": "8", "LOG_LEVEL": "info", "QUEUE__MAX_DELIVERIES": "1000"}
    sessions = {f"s{number}": [] for number in range(4)}
    workers = [site.start(**settings) for _ in range(3)]
    for number in range(48):
        name, session = f"t{number}", dice.choice(list(sessions))
        sessions[session].append(name)
        ran_in = {"session_id": session, "tenant": "x"} if number % 2 else {"session_id": session}
        await site.submit(name, f"book {name}, look {name}", **ran_in)
        if number % 12 == 11:
            await until(partial(answered, site, number // 2), within=40, what="some results")
            workers.pop(0).kill()
            workers.append(site.start(**settings))
    names = [f"t{number}" for number in range(48)]
    results = [await site.result(name, within=60) for name in names]
    await site.empty(within=10)

    assert [result.status for result in results] == ["completed"] * 48
    for session in sessions:
        for tenant in ("", "x"):
            kept = await site.store.conversation(session, tenant=tenant)
            order = questions(kept)
            expected = [n for n in sessions[session] if (int(n[1:]) % 2 == 1) == bool(tenant)]
            assert sorted(order) == sorted(expected)
            assert is_paired(kept)
            for place, name in enumerate(order):
                told = {tuple(questions(sent)) for sent in first_requests(site)[name]}
                assert told == {tuple(order[: place + 1])}


async def answered(site, number):
    """Whether so many tasks have their result."""
    found = [await site.store.result(f"t{each}") for each in range(48)]
    return sum(result is not None for result in found) >= number
