"""No secret in the errors of journal, results and dead letters, whoever put it there."""

from __future__ import annotations

import json

import pytest

from worker.core.errors import ModelError
from worker.queues.port import Ticket

OURS = "plain-words-for-a-key"
THEIRS = "sk-" + "canary0123456789abcdef"
ECHOED = f"HTTP 401: Incorrect API key provided: {OURS}, password=hunter2canary"


@pytest.mark.parametrize("transient", [False, True])
async def test_what_a_model_server_echoes_is_masked(start, ask, transient):
    """The configured key and a password leave the error of the result, the letter and the journal."""
    echo = ModelError(ECHOED, status="auth_error", transient=transient)
    queue = {"backoff_seconds": 0.0, "poll_seconds": 0.05, "max_deliveries": 1}
    async with start(otherwise=echo, api_key=OURS, queue=queue) as worker:
        result = await ask(worker, "hi")
        (letter,) = await worker.queue.dead()
        view = await worker.store.view(result.task_id)

    assert result.error.startswith("HTTP 401: Incorrect API key provided: ")
    kept = json.dumps([result.error, letter.reason, letter.history, view.events], default=str)
    assert "canary" not in kept
    assert OURS not in kept


async def test_what_a_rejected_task_names_is_masked(start):
    """The reason names the field; the bytes of the letter alone are what came."""
    body = json.dumps({"input": "x", "tools": [THEIRS]}).encode()
    async with start() as worker:
        await worker.queue.put(Ticket("t", body))
        result = await worker.result("t", wait_seconds=5)
        (letter,) = await worker.queue.dead()

    assert (result.status, result.error.partition(":")[0]) == ("rejected", "tools")
    assert THEIRS not in result.error + letter.reason + "".join(letter.history)
    assert letter.body == body
