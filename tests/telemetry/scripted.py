"""A run as the runner would tell it, and one sample of everything that can be told."""

from __future__ import annotations

import dataclasses
import io
import json
import time
import types
import typing
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from worker.telemetry import signals as s
from worker.telemetry.logs import LogOptions, Logs
from worker.telemetry.redact import Redactor
from worker.telemetry.tell import Telemetry

OPERATIONS: list[type[s.Operation]] = [
    s.TaskProcessing,
    s.RunLoop,
    s.Step,
    s.ModelCall,
    s.ToolCalling,
    s.QueueCall,
    s.StoreCall,
]
SIGNALS: list[type] = list(typing.get_args(s.Signal))


@contextmanager
def captured(*, level: str = "debug", **more: Any) -> Iterator[tuple[Logs, list[dict[str, Any]]]]:
    """Give logs and, after the block, the lines they wrote, read by a strict parser."""
    stream, lines = io.StringIO(), []
    redactor = more.pop("redactor", None) or Redactor()
    options = LogOptions(
        level=level, version="0.1.0", worker_id="worker-1", **more.pop("options", {})
    )
    logs = Logs(redactor, options=options, stream=stream, **more)
    try:
        yield logs, lines
    finally:
        logs.close()
        lines += [
            json.loads(line, parse_constant=refuse) for line in stream.getvalue().splitlines()
        ]


def refuse(constant: str) -> None:
    """Refuse NaN and Infinity, which are no JSON."""
    raise ValueError(constant)


def tell_run(telemetry: Telemetry, *, task: str = "t-1", traceparent: str | None = None) -> None:
    """Tell one delivery: three steps, three model calls, two tools, one of them degraded."""
    began = time.time()
    telemetry.tell(s.TaskReceived("tasks", task, 1, False))
    delivery = s.TaskProcessing(
        queue="tasks",
        task_id=task,
        delivery=1,
        waited_seconds=0.5,
        session_id="session-1",
        traceparent=traceparent,
        system="sqlite",
    )
    with telemetry.watch(delivery):
        loop = s.RunLoop(
            task_id=task, session_id="session-1", user_input="几点?", start_time=began, model="m-1"
        )
        with telemetry.watch(loop):
            for index in (1, 2, 3):
                tell_step(telemetry, index)
            loop.total_steps, loop.model_calls, loop.tool_calls = 3, 3, 2
            loop.status, loop.final_status, loop.end_time = "completed", "success", time.time()
            loop.degraded = ("stub",)
        with telemetry.watch(s.QueueCall(queue="tasks", name="ack", system="sqlite")):
            pass
        delivery.settlement, delivery.status = "ack", "completed"
    telemetry.tell(s.TaskSettled("tasks", task, "ack", "completed"))


def tell_step(telemetry: Telemetry, index: int) -> None:
    """Tell one step; the first two call a tool each."""
    with telemetry.watch(s.Step(index=index)) as step:
        chat = s.ModelCall(provider="openai", model="m-1", server_address="127.0.0.1")
        with telemetry.watch(chat):
            chat.attempts, chat.prompt_tokens, chat.completion_tokens = 1, 100, 10
            chat.finish_reason = "tool_calls" if index < 3 else "stop"
        if index < 3:
            call = s.ToolCalling(
                tool_name="get_stock_price",
                arguments_hash="sha256:0123456789abcdef",
                step_count=index,
                call_id=f"call_{index}",
                dependency="quote",
            )
            with telemetry.watch(call):
                call.attempts, call.execution_time, call.result_size = 1, 0.25, 12
                call.source = "live" if index == 1 else "stub"
                if index == 2:
                    call.error_type, call.status_code, call.reason = "timeout", 504, "timeout"
                    telemetry.tell(s.BreakerChanged("quote", "closed", "open", "consecutive", 1))
        step.outcome = "tool_calls" if index < 3 else "final_answer"


def sample(kind: type, text: str) -> Any:
    """Build a signal or an operation with this text in every field that can hold one."""
    hints = typing.get_type_hints(kind)
    values = {
        field.name: value_of(hints[field.name], text)
        for field in dataclasses.fields(kind)
        if kind not in OPERATIONS or field.name != "duration_seconds"
    }
    return kind(**values)


def value_of(hint: Any, text: str) -> Any:
    """Return a value of this type that carries the text if it can."""
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        return value_of(
            next(each for each in typing.get_args(hint) if each is not type(None)), text
        )
    if origin is tuple:
        return (text,)
    if origin is dict or hint is dict:
        return {"plain": text, "nested": [{"deep": text}], text: 1}
    if isinstance(hint, type) and issubclass(hint, BaseException):
        return ValueError(text)
    return {str: text, int: 200, float: 1.5, bool: True}[hint]


def tell_everything(telemetry: Telemetry, text: str) -> None:
    """Tell each operation and each signal once, the text in every field."""
    for kind in OPERATIONS:
        for known in (True, False) if kind is s.ToolCalling else (True,):
            operation = sample(kind, text)
            if kind is s.ToolCalling:
                operation.known = known
            with telemetry.watch(operation):
                for signal in SIGNALS:
                    telemetry.tell(sample(signal, text))
