"""For every before there is exactly one after, whatever happens in between."""

from __future__ import annotations

import asyncio
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.telemetry.scripted import captured
from tests.telemetry.test_canary import Kept
from worker.telemetry import signals as s
from worker.telemetry.metrics import Metrics
from worker.telemetry.redact import Redactor
from worker.telemetry.tell import Telemetry
from worker.telemetry.tracing import build_tracing

ENDINGS = st.sampled_from(["well", "raises", "cancelled", "times_out", "exits"])


class Broken:
    """A listener that raises at every call."""

    def told(self, signal):
        """Raise."""
        raise RuntimeError

    started = told

    def settled(self, operation, token):
        """Raise."""
        raise RuntimeError


async def call_tool(telemetry, ending, number):
    """Make one tool call that ends as asked."""
    call = s.ToolCalling(
        tool_name="tool",
        arguments_hash="sha256:0",
        step_count=1,
        call_id=f"call-{number}",
        dependency="tool",
    )
    with telemetry.watch(call):
        await asyncio.sleep(0)
        match ending:
            case "raises":
                raise ValueError
            case "cancelled":
                raise asyncio.CancelledError
            case "times_out":
                async with asyncio.timeout(0):
                    await asyncio.Event().wait()
            case "exits":
                raise GeneratorExit
        call.source = "live"


async def run(telemetry, endings):
    """Run a loop whose tools end as asked, all at once; the loop itself ends like the first."""
    loop = s.RunLoop(task_id="t", session_id="s", user_input="", start_time=1.0, model="m")
    with telemetry.watch(loop):
        calls = [call_tool(telemetry, ending, n) for n, ending in enumerate(endings)]
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        if isinstance(outcomes[0], BaseException):
            raise outcomes[0]


@settings(max_examples=40)
@given(st.lists(ENDINGS, min_size=1, max_size=6))
def test_each_before_has_one_after(endings):
    """In lines, spans and gauges, and with a listener beside them that raises every time."""
    kept = Kept()
    tracing = build_tracing(Redactor(), exporter=kept)
    metrics = Metrics()
    with captured() as (logs, lines):
        telemetry = Telemetry([tracing.spans, Broken(), logs, metrics])
        try:
            asyncio.run(run(telemetry, endings))
        except (Exception, asyncio.CancelledError, GeneratorExit):
            pass
        tracing.close(5)
    before = [line["call_id"] for line in lines if line["event"] == "agent.tool.before"]
    after = [line["call_id"] for line in lines if line["event"] == "agent.tool.after"]
    events = Counter(line["event"] for line in lines)
    page = metrics.render()[0].decode()

    assert sorted(before) == sorted(after) == [f"call-{n}" for n in range(len(endings))]
    assert (events["agent.loop.start"], events["agent.loop.end"]) == (1, 1)
    assert len(kept.texts) == len(endings) + 1
    assert 'loopworker_tool_calls_in_progress{tool="tool"} 0.0' in page
    assert "loopworker_runs_in_progress 0.0" in page
    words = {"cancelled": "cancelled", "exits": "cancelled", "raises": "internal"}
    errors = {line["call_id"]: line.get("error_type") for line in lines if "status_code" in line}
    for number, ending in enumerate(endings):
        if ending in words:
            assert errors[f"call-{number}"] == words[ending]
