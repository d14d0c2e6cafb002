"""A switch to another model, as traces show it."""

from __future__ import annotations

from tests.telemetry.test_span_tree import collect
from worker.telemetry import signals as s


def test_a_switch_of_the_model_shows_on_the_step_and_on_the_run():
    """The step has the event with its cause, the run names all models that replied."""

    def act(telemetry, tracing):
        run = s.RunLoop(task_id="t", session_id="t", user_input="", start_time=1.0, model="a")
        with telemetry.watch(run), telemetry.watch(s.Step(1)):
            telemetry.tell(s.FallbackUsed("model", "a", "b", "success", "context_overflow"))
            run.models = ("a", "b")

    made = {span.name: span for span in collect(act)}
    (event,) = made["agent.step"].events

    assert made["invoke_agent loopworker"].attributes["agent.run.models"] == ("a", "b")
    assert event.name == "fallback.used"
    assert dict(event.attributes) == {
        "agent.fallback": "b",
        "agent.fallback.target": "a",
        "agent.fallback.outcome": "success",
        "agent.fallback.reason": "context_overflow",
    }
