"""What operators do over HTTP: guards, dead letters, runs."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest

from worker.core.task import Result
from worker.queues.port import Ticket


async def test_guards_are_shown_and_forced(house, client):
    """An operator sees the guards and forces one, saying who, why and until when."""
    by = {"who": "wang", "why": "maintenance", "until": "2026-12-03T00:00:00Z"}
    opened = await client.post("/v1/guards/quote/open", json=by)
    closed = await client.post("/v1/guards/model:x/y/close", json={"who": "w", "why": "y"})
    shown = (await client.get("/v1/guards")).json()["guards"]
    rejected = house.guards.get("quote").peek()
    released = await client.post("/v1/guards/quote/release", json={"who": "w", "why": "y"})

    assert [opened.status_code, closed.status_code, released.status_code] == [200, 200, 200]
    assert [(g["name"], g["state"]) for g in shown] == [
        ("model:x/y", "forced_closed"),
        ("quote", "forced_open"),
    ]
    assert shown[1]["override"] == {**by, "kind": "open", "until": 1_796_256_000.0}
    assert shown[1]["layers"]
    assert rejected is not None
    assert house.guards.get("quote").state == "half_open"


async def test_a_tool_stands_for_its_guard(house, client):
    """The guard of a dependency is forced by the name of a tool behind it, and says which it is."""
    answer = await client.post("/v1/guards/get_index/open", json={"who": "w", "why": "y"})
    shown = (await client.get("/v1/guards")).json()["guards"]

    assert answer.status_code == 200
    assert (answer.json()["name"], answer.json()["state"]) == ("quote", "forced_open")
    assert [guard["tools"] for guard in shown] == [[], ["get_index", "get_stock_price"]]


@pytest.mark.parametrize(
    ("path", "body", "status", "field"),
    [
        ("/v1/guards/quote/open", b"", 422, "who"),
        ("/v1/guards/quote/open", b'{"who": "w"}', 422, "why"),
        ("/v1/guards/quote/open", b'{"who": "w", "why": "y", "until": "soon"}', 422, "until"),
        ("/v1/guards/quote/open", b'{"who": "w", "why": "y", "until": 5}', 422, "until"),
        ("/v1/guards/quote/open", b'{"who": "w", "why": "y", "untill": 5}', 422, "untill"),
        ("/v1/guards/quote/release", b'{"who": "w", "why": "y", "until": 5}', 422, "until"),
        ("/v1/guards/quote/open", b"[1]", 422, "body"),
        ("/v1/guards/quote/open", b"{", 400, "body"),
        ("/v1/guards/quote/kick", b'{"who": "w", "why": "y"}', 404, None),
        ("/v1/guards/other/open", b'{"who": "w", "why": "y"}', 404, "name"),
        ("/v1/dead/nobody/redrive", b"", 404, "id"),
    ],
)
async def test_operator_errors_name_the_field(house, client, path, body, status, field):
    """An operator's mistake is answered by field and changes nothing."""
    answer = await client.post(path, content=body)

    assert (answer.status_code, answer.json()["error"]["field"]) == (status, field)
    assert house.guards.get("quote").state == "closed"


async def test_dead_letter_is_listed_and_redriven(house, client):
    """A dead letter shows why it died; redriven, it waits again and its old result is gone."""
    await client.post("/v1/tasks", json={"id": "a/b", "input": "x"})
    await house.queue.dead_letter(await house.claim(), reason="delivered 5 times")
    await house.store.put_result(Result("a/b", "error", error="delivered 5 times"))
    (letter,) = (await client.get("/v1/dead")).json()["dead"]
    redriven = await client.post("/v1/dead/a%2Fb/redrive")
    view = (await client.get("/v1/tasks/a%2Fb")).json()

    assert (letter["id"], letter["reason"]) == ("a/b", "delivered 5 times")
    assert json.loads(letter["body"])["input"] == "x"
    assert redriven.status_code == 202
    assert (view["status"], view["result"]) == ("queued", None)
    assert (await client.post("/v1/dead/a%2Fb/redrive")).status_code == 404


@pytest.mark.parametrize("task_id", ["a\nb", "\n", "a/\u2028\r\n"])
async def test_an_id_with_line_breaks_has_an_address(house, client, task_id):
    """Another program may put such a task: it can be looked at, redriven and cancelled."""
    await house.queue.put(Ticket(task_id, b"x"))
    await house.queue.dead_letter(await house.claim(), reason="test")
    address = quote(task_id, safe="")
    redriven = await client.post(f"/v1/dead/{address}/redrive")
    view = (await client.get(f"/v1/tasks/{address}")).json()
    cancelled = await client.delete(f"/v1/tasks/{address}")

    assert (redriven.status_code, view["id"], cancelled.status_code) == (202, task_id, 200)


async def test_recent_runs_are_listed(house, client):
    """The list of runs shows state, status and whether the answer was degraded."""
    run = await house.begin("t")
    await house.store.finish(run, [], Result("t", "completed", "42"))
    (line,) = (await client.get("/v1/runs?limit=5")).json()["runs"]

    assert (line["id"], line["state"], line["status"]) == ("t", "finished", "completed")
    assert (await client.get("/v1/runs?limit=0")).status_code == 422
    assert (await client.get("/v1/runs?limit=²")).status_code == 422


async def test_unknown_route_and_method_are_json(client):
    """404 and 405 have the one form of an error."""
    missing, wrong = await client.get("/v2"), await client.put("/v1/tasks")

    assert (missing.status_code, wrong.status_code) == (404, 405)
    assert missing.json()["error"]["message"] and wrong.json()["error"]["message"]


async def test_a_route_that_raises_costs_one_request(house, client, monkeypatch, capfd):
    """The client gets our form of an error without what was raised; the next one is answered."""
    secret = "what-was-raised"
    problem = ValueError(secret)

    async def raises(*_: object, **__: object) -> None:
        raise problem

    with monkeypatch.context() as broken:
        broken.setattr(house.queue, "dead", raises)
        answer = await client.get("/v1/dead")

    assert (answer.status_code, house.unhandled) == (500, [problem])
    assert answer.json()["error"]["message"]
    assert secret not in answer.text + "".join(capfd.readouterr())
    assert (await client.get("/v1/dead")).status_code == 200
