"""`approve` and `deny`: through the running worker, or without one."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.web.house import NOW, started
from worker.core.digest import arguments_hash, canonical
from worker.queues import open_queue
from worker.queues.port import Ticket
from worker.store import open_store
from worker.store.mailbox import Expectation, approval_address, job_address

PAYS = {"order": "CN1", "amount": 20}
FAR = 4_000_000_000.0


async def park(queue: Any, store: Any, task_id: str, *calls: str) -> None:
    """Leave a task as a worker leaves one whose calls wait."""
    await queue.put(Ticket(task_id, b'{"input": "x"}'))
    (lease,) = await queue.claim(owner="w", lease_seconds=60, wait_seconds=1)
    run = (await store.open(task_id, owner="w", lease_seconds=60)).run
    await store.append(run, [started(task_id=task_id)])
    for call in calls:
        kind = "job" if call.startswith("job") else "approval"
        address = job_address(call) if kind == "job" else approval_address(f"{task_id}:{call}")
        words = (address, task_id, call, kind, "refund", canonical(PAYS), arguments_hash(PAYS))
        await store.mail.expect(Expectation(*words, asked_at=NOW, expires_at=FAR))
    await store.release(run)
    await queue.nack(lease, delay_seconds=600, counted=False, reason="approval")


@pytest.fixture(params=["worker", "files"])
def parked(request, cli, monkeypatch, tmp_path):
    """Park a task for a running worker, or in the files of none: `parked("t", "c1")`."""
    if request.param == "worker":
        house = request.getfixturevalue("house")
        return lambda *words: asyncio.run(park(house.queue, house.store, *words))
    monkeypatch.setenv("LOOPWORKER_HTTP", "off")
    url = f"sqlite:///{tmp_path / 'cli.db'}"

    async def leave(*words: str) -> None:
        queue, store = open_queue(url), open_store(url)
        await park(queue, store, *words)
        await queue.close()
        await store.close()

    return lambda *words: asyncio.run(leave(*words))


def test_what_waits_is_listed(cli, parked):
    """One line each, with the arguments that somebody has to judge; no jobs among them."""
    parked("t1", "c1", "job-7")
    listed, as_json = cli("approve"), json.loads(cli("deny", "--json").out)

    assert listed.code == 0
    heads, row = listed.out.splitlines()
    assert heads.split() == ["TASK", "CALL", "TOOL", "UNTIL", "DIGEST", "ARGUMENTS"]
    assert row.split()[:3] == ["t1", "c1", "refund"]
    assert row.endswith('{"amount": 20, "order": "CN1"}')
    assert [(each["task"], each["arguments"]) for each in as_json] == [("t1", PAYS)]


def test_nothing_waits(cli, parked):
    """An empty list says so, and a task without waiting calls is exit 3."""
    parked("t1")
    listed, decided, unknown = cli("approve"), cli("approve", "t1"), cli("deny", "nobody")

    assert (listed.code, listed.out) == (0, "")
    assert "nothing waits" in listed.err
    assert (decided.code, "no call of 't1' waits" in decided.err) == (3, True)
    assert unknown.code == 3


@pytest.mark.parametrize(("word", "said"), [("approve", "approved"), ("deny", "denied")])
def test_a_call_is_decided(cli, parked, word, said):
    """The one that waits; what was decided is printed, and the task goes on."""
    parked("t1", "c1")
    ran = cli(word, "t1", "--why", "as agreed", "--who", "wang")
    again = cli(word, "t1", "--who", "wang")
    other = cli("deny" if word == "approve" else "approve", "t1")

    assert (ran.code, ran.out) == (
        0,
        f't1: {said} by wang: refund {{"amount": 20, "order": "CN1"}}\n',
    )
    assert (again.code, again.out) == (0, ran.out)
    assert (other.code, f"was {said} by wang already" in other.err) == (3, True)


def test_one_of_several_is_named(cli, parked):
    """Without a name they are listed and nothing is decided."""
    parked("t1", "c1", "c2")
    open_, named = cli("approve", "t1"), cli("approve", "t1", "c2", "--json")

    assert (open_.code, open_.out) == (3, "")
    assert "name one" in open_.err
    assert ["c1" in open_.err, "c2" in open_.err] == [True, True]
    assert json.loads(named.out)["call"] == "c2"
    assert cli("approve", "t1", "c3").code == 3


def test_other_arguments_are_not_approved(cli, parked):
    """A digest that somebody has noted has to be that of the call."""
    parked("t1", "c1")
    wrong = cli("approve", "t1", "--digest", arguments_hash({"order": "CN2"}))
    right = cli("approve", "t1", "--digest", arguments_hash(PAYS))

    assert (wrong.code, "look at them again" in wrong.err) == (3, True)
    assert right.code == 0


def test_status_tells_what_a_task_waits_for(cli, monkeypatch, tmp_path):
    """With the line to type for an approval, and the handle of a job."""

    async def leave() -> None:
        url = f"sqlite:///{tmp_path / 'cli.db'}"
        queue, store = open_queue(url), open_store(url)
        await park(queue, store, "t1", "c1", "job-7")
        await queue.close()
        await store.close()

    asyncio.run(leave())
    ran = cli("status", "t1")

    assert (ran.code, ran.out) == (3, "queued (parked)\n")
    assert 'an approval of refund {"amount": 20, "order": "CN1"}: ' in ran.err
    assert "loopworker approve|deny t1 c1" in ran.err
    assert "for the job job-7 of refund" in ran.err
