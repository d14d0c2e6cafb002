"""Tasks over HTTP: handed in, looked at, stopped, by a client that nobody here wrote."""

from __future__ import annotations

import gzip
import json
from collections.abc import AsyncIterator

import httpx
import pytest

from tests.web.house import NOW, calls, returned
from worker.core.events import StepsChanged
from worker.core.task import Result
from worker.intake import MAX_TASK_BYTES, read_task
from worker.queues.port import Ticket


async def test_json_task_is_accepted(house, client):
    """A task is answered 202 with its address and lies in the queue as version 1."""
    answer = await client.post("/v1/tasks", json={"id": "a/b 一", "input": "现在几点?", "x": 1})
    lease = await house.claim()
    task = read_task(lease.body, default_id="?")

    assert answer.status_code == 202
    assert answer.json() == {"id": "a/b 一", "status": "queued"}
    assert answer.headers["location"] == "/v1/tasks/a%2Fb%20%E4%B8%80"
    assert (task.id, task.input, task.extensions) == ("a/b 一", "现在几点?", {"x": 1})
    assert (await client.get(answer.headers["location"])).json()["status"] == "running"


@pytest.mark.parametrize("word", ["events", "approvals"])
async def test_id_may_end_as_an_address_does(client, word):
    """Where a task is called `a/events`, its address leads to it, and not to the events of `a`."""
    handed_in = await client.post("/v1/tasks", json={"id": f"a/{word}", "input": "现在几点?"})
    await client.post("/v1/tasks", json={"id": "a", "input": "现在几点?"})
    place = handed_in.headers["location"]

    assert (await client.get(place)).json()["id"] == f"a/{word}"
    assert (await client.post(place, json={})).status_code == 405
    assert (await client.delete(place)).json()["status"] == "finished"
    assert (await client.get("/v1/tasks/a")).json()["status"] == "queued"
    assert (await client.post("/v1/dead/a%2Fredrive", json={})).json()["error"]["field"] is None


async def test_plain_text_is_the_input(house, client):
    """A text body becomes the input, even if it looks like JSON, and gets an id."""
    headers = {"Content-Type": "text/plain; charset=utf-8"}
    answer = await client.post("/v1/tasks", content='{"not": "a task"}', headers=headers)
    task = read_task((await house.claim()).body, default_id="?")

    assert answer.status_code == 202
    assert answer.json()["id"] == task.id == "task-0"
    assert task.input == '{"not": "a task"}'


@pytest.mark.parametrize(
    ("method", "path", "code", "said"),
    [
        ("GET", "/", 404, "There is nothing at '/'; tasks are at /v1/tasks."),
        ("PUT", "/v1/tasks", 405, "PUT is not for this address; it takes POST."),
    ],
)
async def test_wrong_address_or_method_says_the_right_one(client, method, path, code, said):
    """Whoever guessed finds the way."""
    answer = await client.request(method, path)

    assert (answer.status_code, answer.json()["error"]["message"]) == (code, said)


async def test_mark_before_the_body_is_read_over(house, client):
    """Some shells put one before whatever they send."""
    mark, kinds = b"\xef\xbb\xbf", ("application/json", "text/plain")
    for kind, body in zip(kinds, (b'{"input": "hi"}', b"hi"), strict=True):
        answer = await client.post("/v1/tasks", content=mark + body, headers={"Content-Type": kind})
        assert answer.status_code == 202
        assert read_task((await house.claim()).body, default_id="?").input == "hi"


async def test_known_id_is_told_apart(house, client):
    """The same id again is answered 200 with where that task is, and is queued once."""
    first = await client.post("/v1/tasks", json={"id": "t", "input": "one"})
    again = await client.post("/v1/tasks", json={"id": "t", "input": "two"})

    assert (first.status_code, again.status_code) == (202, 200)
    assert first.json() == {"id": "t", "status": "queued"}
    assert again.json() == {"id": "t", "status": "queued", "duplicate": True}
    assert (await house.queue.depth()).ready == 1


async def test_trace_context_of_the_request_travels_with_the_task(house, client):
    """Both headers of a trace are taken into the task, unless the task has its own."""
    parent, own = ("00-" + digit * 32 + "-" + "b" * 16 + "-01" for digit in "ac")
    headers = {"traceparent": parent, "tracestate": "vendor=1"}
    for body in ({"input": "x"}, {"input": "x", "traceparent": own}):
        await client.post("/v1/tasks", json=body, headers=headers)
    tasks = [read_task((await house.claim()).body, default_id="?") for _ in range(2)]

    assert [(task.traceparent, task.tracestate) for task in tasks] == [
        (parent, "vendor=1"),
        (own, None),
    ]


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        (b'{"input": "\xff\xfe"}', 400, "body"),
        (b'{"input": ', 400, "body"),
        (b"[" * 10_000 + b"]" * 10_000, 400, "body"),
        (b'{"input": "x", "metadata": ' + b'{"a":' * 10_000 + b"1" + b"}" * 10_001, 400, "body"),
        (b"[1]", 422, "task"),
        (b"{}", 422, "input"),
        (b'{"input": 7}', 422, "input"),
        (b'{"input": "  "}', 422, "input"),
        (b'{"input": "x", "max_steps": "many"}', 422, "max_steps"),
        (b'{"input": "x", "version": 2}', 422, "version"),
        (b'{"input": "x", "deadline": "soon"}', 422, "deadline"),
        (b'{"input": "x", "tools": ["get_current_time", "launch"]}', 422, "tools"),
        (b'{"input": "x", "reply_to": "https://example.com/hook"}', 422, "reply_to"),
        (b'{"input": "x", "reply_to": "queue:tasks"}', 422, "reply_to"),
        (b'{"input": "' + b"x" * 1_048_576 + b'"}', 413, "body"),
    ],
)
async def test_bad_task_is_refused_by_field(house, client, body, status, field):
    """A task that cannot be read gets a 4xx naming the field; nothing is queued, the next works."""
    headers = {"Content-Type": "application/json"}
    answer = await client.post("/v1/tasks", content=body, headers=headers)

    assert (answer.status_code, answer.json()["error"]["field"]) == (status, field)
    assert answer.json()["error"]["message"]
    assert (await house.queue.depth()).ready == 0
    assert (await client.post("/v1/tasks", json={"input": "x"})).status_code == 202


@pytest.mark.parametrize("spare", [0, 40, 400])
async def test_what_is_accepted_is_read_again(house, client, spare):
    """A body near the limit is refused, or lies in the queue as bytes that a worker can read."""
    head, foot = b'{"id": "big", "input": "', b'"}'
    body = head + b"x" * (MAX_TASK_BYTES - len(head) - len(foot) - spare) + foot
    answer = await client.post(
        "/v1/tasks", content=body, headers={"Content-Type": "application/json"}
    )

    if answer.status_code == 202:
        assert read_task((await house.claim()).body, default_id="?").id == "big"
    else:
        assert (answer.status_code, answer.json()["error"]["field"]) == (413, "body")
        assert (await house.queue.depth()).ready == 0


async def test_unknown_tool_is_named(client):
    """The refusal names the unknown tool and those there are."""
    answer = await client.post("/v1/tasks", json={"input": "x", "tools": ["launch"]})

    message = answer.json()["error"]["message"]
    assert "launch" in message
    assert "get_current_time, get_stock_price" in message


async def test_chunked_body_is_bounded_while_it_is_read(house, client):
    """Without a Content-Length the limit still holds, before the whole body has come."""
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while sent < 400:
            sent += 1
            yield b"x" * 65_536

    headers = {"Content-Type": "text/plain"}
    try:
        answer = await client.post("/v1/tasks", content=endless(), headers=headers)
        assert answer.status_code == 413
    except httpx.TransportError:
        pass  # the server may close while we still send
    assert sent < 400


@pytest.mark.parametrize("media", ["application/xml", "", "multipart/form-data"])
async def test_other_media_types_are_refused(client, media):
    """What is neither JSON nor text is 415."""
    answer = await client.post("/v1/tasks", content=b"x", headers={"Content-Type": media})

    assert (answer.status_code, answer.json()["error"]["field"]) == (415, "content-type")


@pytest.mark.parametrize(
    "path", ["/v1/tasks", "/v1/tasks/t/approvals", "/v1/jobs/j", "/v1/guards/quote/open"]
)
async def test_a_compressed_body_is_refused_by_name(house, client, path):
    """Wherever a body is read: the message says what is wrong, not that some byte is no UTF-8."""
    body = gzip.compress(b'{"input": "x"}')
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    answer = await client.post(path, content=body, headers=headers)

    assert (answer.status_code, answer.json()["error"]["field"]) == (415, "content-encoding")
    assert (await house.queue.depth()).ready == 0


async def test_full_queue_and_outage_are_told(house, client):
    """A full queue is 429, one that cannot be reached 503, both with Retry-After."""
    house.queue.depth_max = 0
    full = await client.post("/v1/tasks", json={"input": "x"})
    house.broker.outage = True
    away = await client.post("/v1/tasks", json={"input": "x"})

    assert (full.status_code, away.status_code) == (429, 503)
    assert full.headers["retry-after"] and away.headers["retry-after"]


async def test_task_is_followed_from_queued_to_finished(house, client):
    """GET tells queued, running, finished with the result; an unknown id is 404."""
    await client.post("/v1/tasks", json={"id": "t", "input": "x"})
    queued = (await client.get("/v1/tasks/t")).json()
    lease = await house.claim()
    run = await house.begin("t")
    running = (await client.get("/v1/tasks/t")).json()
    await house.store.finish(run, [], Result("t", "completed", "42"))
    await house.queue.ack(lease)
    finished = (await client.get("/v1/tasks/t")).json()

    assert (queued["status"], queued["place"], queued["result"]) == ("queued", "ready", None)
    assert (running["status"], running["worker"]) == ("running", "w1")
    assert (finished["status"], finished["result"]["answer"]) == ("finished", "42")
    assert (await client.get("/v1/tasks/nobody")).status_code == 404


async def test_steps_are_told_with_their_bound_and_its_reason(house, client):
    """GET tells how far a run is, how far it may go, and each change of that in order."""
    run = await house.begin("t")
    begun = (await client.get("/v1/tasks/t")).json()["steps"]
    changes = [StepsChanged(NOW, 9, "adaptive: 1 of 1 steps failed"), StepsChanged(NOW, 10, "two")]
    await house.store.append(run, [calls("price"), returned(0), *changes])
    changed = (await client.get("/v1/tasks/t")).json()["steps"]
    stopped = (await client.delete("/v1/tasks/t")).json()["steps"]
    await house.store.finish(run, [], Result("t", "completed", "42"))
    finished = (await client.delete("/v1/tasks/t")).json()

    assert stopped == changed == finished["steps"]
    assert finished["status"] == "finished"
    assert begun == {"taken": 0, "max": 8, "reason": "setting", "changes": []}
    assert (changed["taken"], changed["max"], changed["reason"]) == (1, 10, "setting; two")
    assert [change["max"] for change in changed["changes"]] == [9, 10]
    assert changed["changes"][0]["reason"] == "adaptive: 1 of 1 steps failed"


async def test_waiting_task_is_cancelled_at_once(house, client):
    """DELETE of a waiting task answers 200 with the cancelled result, and nobody can claim it."""
    await client.post("/v1/tasks", json={"id": "t", "input": "x"})
    answer = await client.delete("/v1/tasks/t")
    again = await client.delete("/v1/tasks/t")

    assert answer.status_code == again.status_code == 200
    assert answer.json()["result"]["status"] == "cancelled"
    assert await house.queue.claim(owner="w", lease_seconds=9, wait_seconds=0) == []
    assert (await client.delete("/v1/tasks/nobody")).status_code == 404


async def test_a_cancelled_waiting_task_still_answers_its_reply_queue(house, client):
    """Whoever waits on the reply queue gets the cancelled result, once, with its session."""
    task = {"id": "t", "input": "x", "session_id": "s1", "reply_to": "queue:replies"}
    await client.post("/v1/tasks", json=task)
    answer = await client.delete("/v1/tasks/t")
    await client.delete("/v1/tasks/t")

    replies = house.queue.sibling("replies")
    (lease,) = await replies.claim(owner="w", lease_seconds=9, wait_seconds=0, limit=9)
    told = json.loads(lease.body)
    assert (told["task_id"], told["status"], told["session_id"]) == ("t", "cancelled", "s1")
    assert told == answer.json()["result"]


async def test_a_full_reply_queue_leaves_the_ticket_to_tell_of_the_cancel(house, client):
    """The task is cancelled, and its ticket stays for a worker, who publishes later."""
    await client.post("/v1/tasks", json={"id": "t", "input": "x", "reply_to": "queue:replies"})
    replies = house.queue.sibling("replies")
    for number in range(50):
        await replies.put(Ticket(f"r{number}", b"{}"))
    answer = await client.delete("/v1/tasks/t")

    assert (answer.status_code, answer.json()["result"]["status"]) == (200, "cancelled")
    assert await house.queue.state("t") == "ready"


async def test_a_waiting_task_that_nobody_can_read_is_cancelled(house, client):
    """Bytes that are no task, and a reply_to that leads nowhere, do not stop a cancel."""
    bodies = [b"\xff", b'{"input": "x", "reply_to": "queue:tasks"}']
    for number, body in enumerate(bodies):
        await house.queue.put(Ticket(f"t{number}", body))
        answer = await client.delete(f"/v1/tasks/t{number}")

        assert answer.json()["result"]["status"] == "cancelled"
    assert await house.queue.claim(owner="w", lease_seconds=9, wait_seconds=0) == []


async def test_running_task_is_asked_to_stop(house, client):
    """DELETE of a running task answers 202, and its worker is told at its next write."""
    await client.post("/v1/tasks", json={"id": "t", "input": "x"})
    await house.claim()
    run = await house.begin("t")
    answer = await client.delete("/v1/tasks/t")
    seen = (await client.get("/v1/tasks/t")).json()
    await house.store.append(run, [calls("get_stock_price")])

    assert (answer.status_code, answer.json()["status"]) == (202, "cancelling")
    assert (seen["status"], seen["worker"]) == ("cancelling", "w1")
    assert run.cancel_requested


async def test_cancel_that_was_cut_short_is_made_whole(house, client):
    """When a cancel died between journal and queue, the ticket that is left leads to the result."""
    await client.post("/v1/tasks", json={"id": "t", "input": "x"})
    await house.store.put_result(Result("t", "cancelled"))
    await house.claim()

    assert (await client.get("/v1/tasks/t")).json()["status"] == "finished"
    assert (await house.store.open("t", owner="w", lease_seconds=9)).run is None
