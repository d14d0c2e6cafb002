"""A lean loop with the worker's own telemetry: the same signals, through the same listeners.

`lean.py` tells by hand the least of what we promise. This one tells what the worker tells of a
task, its loop, steps, model calls and tool calls, so that it leaves the same lines and spans, and
counts the same; it has no journal, queue, guard, retry or validation, and tells nothing of them.
"""

from __future__ import annotations

import time
from typing import Any

import orjson

from tests.bench.lean import JSON
from worker.core.digest import arguments_hash
from worker.telemetry.signals import (
    ModelCall,
    RunLoop,
    Step,
    StepUpdated,
    TaskProcessing,
    TaskReceived,
    TaskSettled,
    ToolCalling,
)
from worker.telemetry.tell import Telemetry

SERVER = {"provider": "openai", "model": "mock-1", "server_address": "127.0.0.1"}


class Told:
    """One agent: `run` takes a question through the loop to its answer."""

    def __init__(
        self, client: Any, url: str, tools: dict[str, Any], schemas: list[Any], tell: Telemetry
    ) -> None:
        self.client, self.url, self.tools, self.schemas = client, url, tools, schemas
        self.telemetry = tell
        self.made = 0

    async def run(self, question: str) -> str:
        """Answer a question; tools are called as the model asks for them."""
        self.made += 1
        task = f"task-{self.made}"
        processing = TaskProcessing("tasks", task, 1, 0.0, len(question), system="sqlite")
        with self.telemetry.watch(processing) as delivery:
            self.telemetry.tell(TaskReceived("tasks", task, 1, redelivered=False))
            answer = await self.loop(task, question)
            delivery.settlement, delivery.status = "ack", "completed"
            self.telemetry.tell(TaskSettled("tasks", task, "ack", "completed"))
        return answer

    async def loop(self, task: str, question: str) -> str:
        """The loop itself."""
        messages: list[dict[str, Any]] = [{"role": "user", "content": question}]
        with self.telemetry.watch(RunLoop(task, task, question, time.time(), "mock-1")) as run:
            for number in range(1, 9):
                with self.telemetry.watch(Step(number)) as step:
                    message = await self.think(messages, run)
                    calls = message.get("tool_calls")
                    step.outcome = "tool_calls" if calls else "final_answer"
                    if not calls:
                        break
                    self.telemetry.tell(StepUpdated(task, number, "", is_final=False))
                    messages.append(message)
                    for call in calls:
                        messages.append(await self.act(call, number))
                        self.telemetry.tell(StepUpdated(task, number, "", is_final=False))
                        run.tool_calls += 1
            self.telemetry.tell(StepUpdated(task, number, "", is_final=True))
            run.total_steps, run.max_steps, run.max_steps_reason = number, 8, "settings"
            run.status, run.final_status, run.end_time = "completed", "success", time.time()
        return message["content"]

    async def think(self, messages: list[dict[str, Any]], run: RunLoop) -> dict[str, Any]:
        """Ask the model."""
        with self.telemetry.watch(ModelCall(**SERVER)) as asked:
            body = orjson.dumps({"model": "mock-1", "messages": messages, "tools": self.schemas})
            response = await self.client.post(self.url, content=body, headers=JSON)
            response.raise_for_status()
            reply = orjson.loads(response.content)
            asked.prompt_tokens = reply["usage"]["prompt_tokens"]
            asked.completion_tokens = reply["usage"]["completion_tokens"]
            asked.finish_reason = reply["choices"][0]["finish_reason"]
            asked.response_model, asked.response_id = reply["model"], reply["id"]
            asked.attempts = 1
        run.model_calls += 1
        run.models = (reply["model"],)
        run.prompt_tokens += asked.prompt_tokens
        run.completion_tokens += asked.completion_tokens
        return reply["choices"][0]["message"]

    async def act(self, call: dict[str, Any], step: int) -> dict[str, Any]:
        """Call a tool."""
        name, text = call["function"]["name"], call["function"]["arguments"]
        arguments = orjson.loads(text)
        digest = arguments_hash(arguments)
        operation = ToolCalling(name, digest, step, call["id"], name)
        with self.telemetry.watch(operation) as told:
            began = time.perf_counter()
            result = await self.tools[name](**arguments)
            told.execution_time = time.perf_counter() - began
            told.status_code, told.result_size, told.source = 200, len(result), "live"
            told.attempts, told.breaker_state = 1, "closed"
        return {"role": "tool", "tool_call_id": call["id"], "content": result}
