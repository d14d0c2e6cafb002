"""Log lines: their schema, their names, and that nothing can stop or spoil them."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import logging
import os
import threading
import time
from importlib.resources import files

import jsonschema_rs
import pytest
import structlog

from tests.telemetry.scripted import captured, sample, tell_everything, tell_run
from worker.telemetry import logevents, logpoints
from worker.telemetry import signals as s
from worker.telemetry.lines import LINE_BYTES_MAX, Clock, exception_fields
from worker.telemetry.logs import LogOptions, Logs
from worker.telemetry.redact import Redactor
from worker.telemetry.tell import Telemetry

SCHEMA = json.loads((files("worker.telemetry") / "schema/log_line.schema.json").read_text("utf-8"))
PRIVATE = "call 13812345678 with sk-abcdefgh1234"
VALID = jsonschema_rs.validator_for(SCHEMA)


class Hostile:
    """An object whose repr raises."""

    def __repr__(self) -> str:
        """Raise, as a broken object of a tool may."""
        raise RuntimeError("no repr")


def problems(lines):
    """Return what the schema says against the lines."""
    return [f"{line['event']}: {e.message}" for line in lines for e in VALID.iter_errors(line)]


def test_a_whole_run_follows_the_schema():
    """Every line of a run, at every level, is valid."""
    with captured() as (logs, lines):
        tell_run(Telemetry([logs]))

    assert problems(lines) == []
    assert len(lines) > 15


def test_every_signal_and_operation_follows_the_schema():
    """Whatever can be told is written as a valid line, with odd words in every field."""
    with captured() as (logs, lines):
        telemetry = Telemetry([logs])
        for kind in (*logevents.SETTLED, *logpoints.TOLD):
            made = sample(kind, "odd 'words' \n\x1b[31m 密\udce2")
            if isinstance(made, s.ToolCalling):
                made.source = "stub"
            if isinstance(made, s.Operation):
                with telemetry.watch(made):
                    pass
            else:
                telemetry.tell(made)

    assert problems(lines) == []
    assert telemetry.listener_errors == 0


def test_every_event_in_the_schema_is_written_and_no_other():
    """The closed set of events is the set that the code can write."""
    told = set()
    with captured() as (logs, lines):
        telemetry = Telemetry([logs])
        tell_everything(telemetry, "word")
        tell_run(telemetry)
        for state in ("starting", "running", "draining", "stopped"):
            telemetry.tell(s.WorkerChanged(state))
        for change in ("started", "restarting", "killed", "ended"):
            telemetry.tell(s.ProcessChanged(1, 4711, change))
        for state in ("ready", "away"):
            telemetry.tell(s.ServerChanged("time", state, "", "time 1.0", 2))
        for state in ("open", "half_open", "closed", "forced_open"):
            telemetry.tell(s.BreakerChanged("b", "closed", state, "manual", 1))
        telemetry.tell(s.BreakerCounted("b", "rejected"))
        telemetry.tell(s.LeaseRenewed("tasks", "success"))
        telemetry.tell(s.LoopLagged(2.0))
        for reason in ("queue_full", "export_failed"):
            telemetry.tell(s.TelemetryDropped("traces", reason))
        for name, error in (("load_session", None), ("save_session", None), ("append", None)):
            with telemetry.watch(s.StoreCall(name=name, system="sqlite")) as call:
                call.error_type = error
        with telemetry.watch(s.StoreCall(name="save_session", system="sqlite")) as call:
            call.error_type = "conflict"
        with telemetry.watch(s.StoreCall(name="load_session", system="sqlite")) as call:
            call.name, call.answer = "lock_session", "conflict"
        with telemetry.watch(s.ModelCall(provider="p", model="m", server_address="h")) as call:
            call.error_type = "timeout"
        for _ in range(100):
            telemetry.tell(s.BreakerCounted("b", "rejected"))
        logs.logger("a tool").info("hello")
    told |= {line["event"] for line in lines}

    assert told == set(SCHEMA["properties"]["event"]["enum"])


def test_the_four_points_have_their_names_and_fields():
    """Operators find the loop's start and end and each call's before and after by exact name."""
    wanted = {
        "agent.loop.start": {"session_id", "user_input", "start_time"},
        "agent.tool.before": {"tool_name", "arguments_hash", "step_count"},
        "agent.tool.after": {"execution_time", "status_code", "result_size"},
        "agent.loop.end": {"total_steps", "final_status", "end_time"},
    }
    ids = {"task_id", "session_id", "loop_id", "trace_id", "span_id", "service", "worker_id"}
    with captured(level="info", ids=lambda: ("ab" * 16, "cd" * 8)) as (logs, lines):
        tell_run(Telemetry([logs]))
    missing = {
        line["event"]: (wanted[line["event"]] | ids) - set(line)
        for line in lines
        if line["event"] in wanted
    }

    assert missing == {event: set() for event in wanted}


def test_ids_of_one_task_do_not_leak_into_the_next():
    """A line told after a task carries none of its ids."""
    with captured() as (logs, lines):
        telemetry = Telemetry([logs])
        tell_run(telemetry, task="first")
        telemetry.tell(s.LoopLagged(2.0))

    assert "task_id" not in lines[-1]
    assert "session_id" not in lines[-1]


@pytest.mark.parametrize(
    ("policy", "shown"),
    [
        ("none", ""),
        ("hash", f"sha256:{hashlib.sha256(PRIVATE.encode()).hexdigest()[:16]}"),
        ("redacted", "call [phone] with [redacted]"),
        ("full", "call 13812345678 with [redacted]"),
    ],
)
def test_user_input_is_shown_as_the_policy_says(policy, shown):
    """The field is always there; its value follows LOG_CONTENT, and secrets leave in any case."""
    text = PRIVATE
    with captured(redactor=Redactor(content=policy)) as (logs, lines):
        run = s.RunLoop(task_id="t", session_id="s", user_input=text, start_time=0.0, model="m")
        with Telemetry([logs]).watch(run):
            pass

    assert (shown, len(text)) == (lines[0]["user_input"], lines[0]["user_input_length"])


def cyclic():
    """Return a dict that contains itself."""
    loop: dict[str, object] = {}
    loop["self"] = loop
    return loop


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        2**100,
        -(2**70),
        10**5000,
        "lone \ud83d surrogate",
        {"\udce2": 1},
        {(1, 2): 3, 4: 5},
        cyclic(),
        Hostile(),
        [Hostile()],
        object(),
        b"\xff",
        {1, 2},
        "x" * 300_000,
        [["deep"] * 10] * 5_000,
        ValueError("an exception"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_no_value_stops_a_line(value):
    """Whatever a tool logs, there is one valid line of bounded length for it."""
    with captured() as (logs, lines):
        logs.logger("tool").info("odd", value=value)

    assert problems(lines) == []
    assert [line["event"] for line in lines] == ["log.message"]
    assert len(json.dumps(lines[0], ensure_ascii=False).encode()) <= LINE_BYTES_MAX * 1.1


def test_fields_of_others_cannot_pose_as_ours():
    """A tool that logs a field named like one of ours finds it under `fields`."""
    with captured() as (logs, lines):
        logs.logger("tool").info("odd", trace_id="forged", task_id="forged", level="error")

    assert lines[0]["fields"] == {"trace_id": "forged", "task_id": "forged", "level": "error"}
    assert "trace_id" not in lines[0]


def test_exceptions_are_told_without_local_variables():
    """A stack trace names places, and no values that stood in variables."""
    hidden = "value-of-a-local"
    try:
        raise ValueError("what happened")
    except ValueError as error:
        error.__cause__ = error
        told = exception_fields(error)

    assert told["message"] == "what happened"
    assert hidden not in json.dumps(told)
    assert "cause" not in told


def test_standard_logging_and_structlog_join_in():
    """Lines of libraries come out in the same form, masked, and everything is undone at the end."""
    before = logging.getLogger().handlers[:]
    with captured() as (logs, lines):
        logs.install()
        logging.getLogger("library").warning("hello %s", "you", extra={"api_key": "abc"})
        logging.getLogger("library").error("bad template %d", "text")
        logging.getLogger("httpx").info("HTTP Request: GET http://host/?key=abc")
        structlog.get_logger().info("from a tool", answer=42)
    ours = [(line["logger"], line["message"]) for line in lines]

    assert problems(lines) == []
    assert ours == [
        ("library", "hello you"),
        ("library", "bad template %d"),
        ("structlog", "from a tool"),
    ]
    assert lines[0]["fields"]["api_key"] == "[redacted]"
    assert before == logging.getLogger().handlers


def test_a_chatty_event_is_limited_and_the_rest_counted():
    """What is left out is told later, so that no number is lost."""
    with captured() as (logs, lines):
        telemetry = Telemetry([logs])
        for _ in range(1_000):
            telemetry.tell(s.BreakerCounted("quote", "rejected", "open"))
    last = lines[-1]

    assert logevents.RATE_LIMITS["breaker.rejected"] == len(lines) - 1
    assert 1_000 - logevents.RATE_LIMITS["breaker.rejected"] == last["events"]["breaker.rejected"]


def test_a_level_that_is_off_writes_nothing():
    """At `error`, a whole degraded run leaves no line."""
    with captured(level="error") as (logs, lines):
        tell_run(Telemetry([logs]))

    assert lines == []


def test_the_console_form_is_for_people():
    """One line per event without ids, and still without secrets or escapes."""
    stream = io.StringIO()
    logs = Logs(Redactor(["my-own-secret"]), options=LogOptions(form="console"), stream=stream)
    Telemetry([logs]).tell(s.TaskRefused("tasks", "t", "schema", "my-own-secret \x1b[2J"))
    logs.close()

    assert "task.invalid" in stream.getvalue()
    assert "my-own-secret" not in stream.getvalue()
    assert "\x1b" not in stream.getvalue()


def test_a_time_has_milliseconds_in_utc():
    """Also where the second is cached from the line before."""
    clock = Clock()

    assert clock.text(1.5) == "1970-01-01T00:00:01.500Z"
    assert clock.text(1.9999) == "1970-01-01T00:00:01.999Z"
    assert clock.text(2.0) == "1970-01-01T00:00:02.000Z"


async def test_a_blocked_outlet_does_not_block_the_loop():
    """With nobody reading standard output, telling stays quick, and what was lost is counted."""
    reader, writer = os.pipe()
    dropped = []
    logs = Logs(
        Redactor(),
        stream=os.fdopen(writer, "w"),
        on_drop=lambda reason, count: dropped.append((reason, count)),
    )
    telemetry = Telemetry([logs])
    slowest = 0.0
    for _ in range(60):
        began = time.perf_counter()
        for _ in range(100):
            telemetry.tell(s.TaskRefused("tasks", "t" * 500, "schema", "p" * 1_000))
        slowest = max(slowest, time.perf_counter() - began)
        await asyncio.sleep(0)
    lost = sum(count for _, count in dropped)

    assert 0 < lost < 6_000
    assert {"queue_full"} == {reason for reason, _ in dropped}
    assert slowest < 10.0  # one that waited would wait for ever
    text = drain(reader, logs)
    told = [line for line in map(json.loads, text) if line["event"] == "telemetry.dropped"]
    assert lost == sum(line["count"] for line in told)


def drain(reader, logs):
    """Read the pipe until the logs are closed; return complete lines."""
    parts = []

    def read():
        while part := os.read(reader, 65_536):
            parts.append(part)

    thread = threading.Thread(target=read)
    thread.start()
    assert logs.outbox.flush(20)
    logs.close(5)
    logs.outlet._stream.close()
    thread.join(5)
    os.close(reader)
    return b"".join(parts).decode().splitlines()


def test_a_closed_pipe_is_counted_and_nothing_else():
    """When whoever read the lines is gone, the worker goes on."""
    reader, writer = os.pipe()
    os.close(reader)
    dropped = []
    stream = os.fdopen(writer, "w")
    logs = Logs(Redactor(), stream=stream, on_drop=lambda *what: dropped.append(what))
    Telemetry([logs]).tell(s.TaskDuplicated("tasks", "t"))
    logs.close()
    stream.close()

    assert dropped == [("export_failed", 1)]


def test_closing_keeps_to_its_budget_when_nobody_reads():
    """A full pipe at the end costs the budget and no more; what is left behind is counted."""
    reader, writer = os.pipe()
    dropped = []
    stream = os.fdopen(writer, "w")
    logs = Logs(Redactor(), stream=stream, on_drop=lambda *what: dropped.append(what))
    telemetry = Telemetry([logs])
    for _ in range(2_000):
        telemetry.tell(s.TaskRefused("tasks", "t" * 500, "schema", "p"))
    began = time.perf_counter()
    logs.close(0.3)
    took = time.perf_counter() - began
    os.close(reader)  # ends the write that hangs
    logs.outbox._thread.join(5)
    stream.close()

    assert 0.25 < took < 10  # without a budget it would never end
    assert sum(count for _, count in dropped) > 100
