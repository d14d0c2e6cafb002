"""What runs wait for, over HTTP: look at it, decide, hand in the results of jobs."""

from __future__ import annotations

import json

import pytest

from tests.web.house import NOW, House
from worker.core.digest import arguments_hash, canonical
from worker.core.limits import Status
from worker.core.task import Result
from worker.queues.port import Ticket
from worker.store.mailbox import Expectation, approval_address, job_address
from worker.web.waiting import MAX_REPORT_BYTES

PAYS = {"order": "CN1", "card": {"password": "hunter22"}}
DIGEST = arguments_hash(PAYS)
YES = {"approved": True, "by": "wang", "call": "call_0", "digest": DIGEST}


def expectation(kind: str = "approval", task_id: str = "a/b", call_id: str = "call_0"):
    """What a call of a task waits for."""
    key = f"{task_id}:{call_id}"
    address = approval_address(key) if kind == "approval" else job_address("render/7")
    words = (address, task_id, call_id, kind, "refund", canonical(PAYS), DIGEST)
    return Expectation(*words, asked_at=NOW, expires_at=NOW + 600)


async def park(house: House, *expected: Expectation) -> None:
    """Leave a task as a worker leaves one that waits."""
    task_id = expected[0].run_id
    await house.queue.put(Ticket(task_id, b'{"input": "x"}'))
    lease, run = await house.claim(), await house.begin(task_id)
    for each in expected:
        await house.store.mail.expect(each)
    await house.store.release(run)
    await house.queue.nack(lease, delay_seconds=600, counted=False, reason="approval")


async def test_what_waits_is_shown_without_its_secrets(house, client):
    """In the list and at its task: the arguments, their digest and until when."""
    await park(house, expectation())
    shown = (await client.get("/v1/approvals")).json()["approvals"]
    task = (await client.get("/v1/tasks/a/b")).json()

    assert [each["task"] for each in shown] == ["a/b"]
    assert task["waiting"] == [{k: v for k, v in shown[0].items() if k != "task"}]
    (waits,) = task["waiting"]
    assert (waits["kind"], waits["call"], waits["tool"]) == ("approval", "call_0", "refund")
    assert (waits["digest"], waits["arguments"]["order"]) == (DIGEST, "CN1")
    assert "hunter22" not in json.dumps(shown)
    assert (task["status"], task["place"]) == ("queued", "parked")


async def test_a_decision_wakes_the_task(house, client):
    """It is kept, said again it is the same, and the task is ready."""
    await park(house, expectation())
    answers = [await client.post("/v1/tasks/a/b/approvals", json=YES) for _ in range(2)]
    other = await client.post("/v1/tasks/a/b/approvals", json={**YES, "approved": False})
    (posted,) = await house.store.mail.read([approval_address("a/b:call_0")])

    assert [answer.status_code for answer in answers] == [200, 200]
    assert answers[0].json() == answers[1].json()
    assert answers[0].json()["digest"] == DIGEST
    assert (other.status_code, "approved by wang" in other.text) == (409, True)
    assert json.loads(posted.body) == {"approved": True, "by": "wang", "digest": DIGEST, "why": ""}
    assert await house.queue.state("a/b") == "ready"


@pytest.mark.parametrize(
    ("change", "status", "field"),
    [
        ({"approved": "yes"}, 422, "approved"),
        ({"approved": None}, 422, "approved"),
        ({"by": " "}, 422, "by"),
        ({"by": "x" * 201}, 422, "by"),
        ({"why": 5}, 422, "why"),
        ({"digest": None}, 422, "digest"),
        ({"digest": arguments_hash({"order": "CN2"})}, 409, None),
        ({"call": "call_9"}, 404, None),
    ],
)
async def test_a_decision_that_does_not_count(house, client, change, status, field):
    """It is refused by what is wrong with it, nothing is written and nobody is woken."""
    await park(house, expectation())
    answer = await client.post("/v1/tasks/a/b/approvals", json={**YES, **change})

    assert (answer.status_code, answer.json()["error"]["field"]) == (status, field)
    assert await house.store.mail.read([approval_address("a/b:call_0")]) == []
    assert await house.queue.state("a/b") == "parked"


async def test_what_a_decision_lacks_is_named(client):
    """All of it at once, and where to find it."""
    answer = await client.post("/v1/tasks/a/approvals", json={"approved": True})
    error = answer.json()["error"]

    assert (answer.status_code, error["field"]) == (422, "by")
    assert error["message"].startswith("by, digest: missing")
    assert "GET /v1/approvals" in error["message"]


async def test_the_address_of_a_decision_shows_what_waits_there(house, client):
    """The calls of that task alone, and of jobs none: nobody can allow those."""
    await park(house, expectation(), expectation("job", call_id="call_1"))
    await park(house, expectation(task_id="c"))
    shown = (await client.get("/v1/tasks/a/b/approvals")).json()["approvals"]

    assert [(each["task"], each["call"], each["digest"]) for each in shown] == [
        ("a/b", "call_0", DIGEST)
    ]
    assert (await client.get("/v1/tasks/nobody/approvals")).status_code == 404


async def test_nothing_waits(house, client):
    """A task that is unknown is 404; a call that waits no longer is 410."""
    await park(house, expectation())
    unknown = await client.post("/v1/tasks/nobody/approvals", json=YES)
    other = await client.post("/v1/tasks/a/b/approvals", json={**YES, "call": "call_7"})
    await house.store.mail.answered("a/b", [approval_address("a/b:call_0")])
    over = await client.post("/v1/tasks/a/b/approvals", json=YES)

    assert (unknown.status_code, other.status_code, over.status_code) == (404, 404, 410)
    assert "no call 'call_7' of that task waits" in other.json()["error"]["message"]
    assert "waits no longer: its task went on or ended" in over.json()["error"]["message"]
    assert (await client.get("/v1/approvals")).json() == {"approvals": []}


async def test_a_run_that_has_ended_takes_no_decision(house, client):
    """Whoever ended it may have died before the mailbox was told: 410 all the same."""
    await park(house, expectation())
    await house.store.put_result(Result(task_id="a/b", status=Status.CANCELLED))
    late = await client.post("/v1/tasks/a/b/approvals", json=YES)

    assert late.status_code == 410
    assert await house.store.mail.read([approval_address("a/b:call_0")]) == []


async def test_a_cancel_said_again_ends_what_the_first_left(house, client):
    """Killed after the result: nothing waits for an approval, and the ticket is settled."""
    await park(house, expectation())
    await house.store.put_result(Result(task_id="a/b", status=Status.CANCELLED))
    again = await client.delete("/v1/tasks/a/b")

    assert (again.status_code, again.json()["status"]) == (200, "finished")
    assert (await client.get("/v1/approvals")).json() == {"approvals": []}
    assert await house.queue.state("a/b") == "ready"  # who claims it publishes the result


@pytest.mark.parametrize("first", ["result", "run"])
async def test_a_result_is_kept_whoever_comes_first(house, client, first):
    """Before the run waits for it, too; again it is known, and another one is refused."""
    if first == "run":
        await park(house, expectation("job"))
    answers = [await client.post("/v1/jobs/render/7", json={"result": [1]}) for _ in range(2)]
    other = await client.post("/v1/jobs/render/7", json={"result": [2]})
    (posted,) = await house.store.mail.read([job_address("render/7")])

    assert [answer.status_code for answer in answers] == [202, 200]
    assert answers[0].json() == {"handle": "render/7", "expected": first == "run"}
    assert (other.status_code, other.json()["error"]["field"]) == (409, "handle")
    assert json.loads(posted.body) == {"result": [1]}
    assert await house.queue.state("a/b") == ("ready" if first == "run" else None)


async def test_two_runs_may_wait_for_one_job(house, client):
    """Both are woken."""
    await park(house, expectation("job", "t1"))
    await park(house, expectation("job", "t2"))
    await client.post("/v1/jobs/render/7", content="done", headers={"content-type": "text/plain"})

    assert [await house.queue.state(task_id) for task_id in ("t1", "t2")] == ["ready", "ready"]


async def test_a_job_that_is_waited_for_no_longer(house, client):
    """Of a run that ended, or was cancelled: 410, and nothing is kept."""
    await park(house, expectation("job"))
    await client.delete("/v1/tasks/a/b")
    answer = await client.post("/v1/jobs/render/7", json={"result": 1})

    assert answer.status_code == 410
    assert await house.store.mail.read([job_address("render/7")]) == []


@pytest.mark.parametrize(
    ("content", "media", "status"),
    [
        (b"1", "application/json", 422),
        (b"{}", "application/json", 422),
        (b'{"result": 1, "error": "x"}', "application/json", 422),
        (b'{"error": " "}', "application/json", 422),
        (b'{"error": {"message": "x"}}', "application/json", 422),
        (b'{"result": 1', "application/json", 400),
        (b'{"result": ' + b"[" * 200 + b"]" * 200 + b"}", "application/json", 400),
        (b"\xff", "text/plain", 400),
        (b"1", "text/html", 415),
        (b"x" * (MAX_REPORT_BYTES + 1), "text/plain", 413),
    ],
)
async def test_a_report_that_cannot_be_read(house, client, content, media, status):
    """It is refused at once, and another one may come."""
    bad = await client.post("/v1/jobs/h", content=content, headers={"content-type": media})
    good = await client.post("/v1/jobs/h", json={"error": "no paper"})

    assert (bad.status_code, good.status_code) == (status, 202)


async def test_odd_handles(house, client):
    """What can be no handle is not there."""
    answers = [
        await client.post(f"/v1/jobs/{handle}", json={"result": 1})
        for handle in ("", "x" * 201, "a%20b", "a%0Ab")
    ]

    assert [answer.status_code for answer in answers] == [404, 404, 404, 404]


async def test_strangers_cannot_fill_the_mailbox(house, client):
    """What nobody expects is bounded; what is expected always gets in."""
    house.store.mail.unexpected_max = 2
    await park(house, expectation("job"))
    codes = [(await client.post(f"/v1/jobs/h{n}", json={"result": n})).status_code for n in (1, 2)]
    full = await client.post("/v1/jobs/h3", json={"result": 3})
    expected = await client.post("/v1/jobs/render/7", json={"result": 4})

    assert codes == [202, 202]
    assert (full.status_code, "Retry-After" in full.headers) == (429, True)
    assert expected.status_code == 202


async def test_an_outage_of_the_store_is_told(house, client):
    """503, and the same may be sent again."""
    house.base.outage = True
    down = await client.post("/v1/jobs/h", json={"result": 1})
    house.base.outage = False
    again = await client.post("/v1/jobs/h", json={"result": 1})

    assert (down.status_code, again.status_code) == (503, 202)
