"""Tasks and settings that are wrong: each is told what is, and everybody else goes on."""

from __future__ import annotations

import http.client
import json
import socket

import pytest

MIB = 1_048_576
DEEP = b"[" * 10_000 + b"]" * 10_000
# What is wrong, the bytes, the word that the answer names it by, the code of the API.
BAD = {
    "not-utf-8": (b'{"input": "\xff\xfe"}', "body", 400),
    "not-json": (b'{"input": "x"', "body", 400),
    "no-input": (b'{"max_steps": 3}', "input", 422),
    "input-a-number": (b'{"input": 5}', "input", 422),
    "steps-a-text": (b'{"input": "x", "max_steps": "many"}', "max_steps", 422),
    "over-1-mib": (json.dumps({"input": "x" * MIB}).encode(), "body", 413),
    "deep": (b'{"input": "x", "metadata": {"a": ' + DEEP + b"}}", "body", 400),
    "unknown-tool": (b'{"input": "x", "tools": ["teleport"]}', "tools", 422),
}


async def test_bad_tasks_of_the_queue_are_rejected_by_name(site):
    """Each has a result `rejected` that names the field and is a dead letter; the others run."""
    for name, (body, _, _) in BAD.items():
        await site.put(name, body)
    await site.submit("good", "book a")
    worker = site.start()
    results = {name: await site.result(name, within=15) for name in BAD}
    good = await site.result("good", within=5)
    await site.empty(dead=len(BAD))
    letters = {letter.id: letter.body for letter in await site.queue.dead()}

    assert {name: result.status for name, result in results.items()} == dict.fromkeys(
        BAD, "rejected"
    )
    for name, (_, field, _) in BAD.items():
        assert results[name].error.startswith(field), results[name].error
    assert letters == {name: body for name, (body, _, _) in BAD.items()}
    assert (good.status, site.effects()) == ("completed", ["book a"])
    assert sum(site.model.counts("good").values()) == len(site.model.asked)
    assert worker.alive
    assert "error.unhandled" not in worker.events()


async def test_bad_tasks_of_the_api_are_refused_by_name(site):
    """4xx with the field, nothing queued; the next request is answered."""
    worker = site.start(admin=True, http=True)
    await worker.ready()
    refused = {name: post(worker, body) for name, (body, _, _) in BAD.items()}
    code, created = post(worker, b'{"id": "good", "input": "good: book a"}')
    good = await site.result("good", within=10)
    await site.empty()

    for name, (_, field, expected) in BAD.items():
        assert (refused[name][0], refused[name][1]["error"]["field"]) == (expected, field), name
    assert (code, created["id"], good.status) == (202, "good", "completed")


def post(worker, body):
    """POST a task and return the status and the JSON of the answer."""
    host, _, port = worker.http.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=10)
    try:
        headers = {"Content-Type": "application/json"}
        connection.request("POST", "/v1/tasks", body=body, headers=headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("setting", "value", "says"),
    [
        ("CONCURRENCY", "many", "LOOPWORKER_CONCURRENCY"),
        ("QUEUE__LEASE_SECONDS", "0", "from 0.5 to 3600 s"),
        ("QUEUE__LEASE_SECOND", "5", "did you mean LOOPWORKER_QUEUE__LEASE_SECONDS"),
        ("QUEUE_URL", "kafka://x", "QUEUE_URL"),
        ("QUEUE_URL", "sqlite:////does/not/exist/x.db", "QUEUE_URL"),
        ("QUEUE_URL", "sqlite:///x.db?synchronous=maybe", "QUEUE_URL"),
        ("STORE_URL", "sqlite:///.", "STORE_URL"),
        ("MODEL_URL", "", "LOOPWORKER_MODEL_URL"),
        ("MODEL_URL", "localhost:8091", "LOOPWORKER_MODEL_URL"),
        ("ADMIN", "here", "LOOPWORKER_ADMIN"),
        ("HTTP", "0.0.0.0:0", "LOOPWORKER_HTTP_TOKEN"),
        ("TOOLS", "no_such_tools", "LOOPWORKER_TOOLS"),
        ("WORKER__DRAIN_SECONDS", "40", "WORKER__TERMINATION_GRACE_SECONDS"),
        ("OTEL_TRACES_SAMPLER", "sometimes", "OTEL_TRACES_SAMPLER"),
    ],
)
async def test_wrong_setting_ends_the_process_at_once(site, setting, value, says):
    """Exit code 2, one message that names the setting and what is allowed, no traceback."""
    ran = await site.run("run", **{setting: value})

    assert ran.returncode == 2, ran.stderr + ran.stdout
    assert says in ran.stderr
    assert "Traceback" not in ran.stderr + ran.stdout
    assert len(ran.stderr.splitlines()) == 1


@pytest.mark.parametrize("setting", ["ADMIN", "HTTP"])
async def test_taken_address_ends_the_process_at_once(site, setting):
    """A port that somebody else has is named, with its setting."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = await site.run("run", **{setting: f"127.0.0.1:{port}"})

    assert ran.returncode == 2, ran.stderr + ran.stdout
    assert f"LOOPWORKER_{setting}" in ran.stderr
    assert str(port) in ran.stderr
    assert len(ran.stderr.splitlines()) == 1
