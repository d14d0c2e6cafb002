"""What operators, the fleet and settings may do to a guard, and what they see of it."""

from __future__ import annotations

import asyncio

import pytest

from tests.guard.stage import Stage, Tool, call_policy, until
from worker.core.errors import AttemptFailed, ConfigError
from worker.guard.guard import CallPolicy, Fallback, GuardPolicy, doubts
from worker.guard.guards import Guards
from worker.telemetry.signals import OverrideChanged
from worker.telemetry.tell import Telemetry
from worker.testing.simclock import simulated


@simulated
async def test_forced_open_outlives_every_window_and_releases_to_half_open() -> None:
    """An hour later it still rejects; released, one trial decides."""
    stage = Stage()
    stage.guard.force_open(who="ops", why="upstream migration")
    await asyncio.sleep(3600)

    assert (await stage.call(Tool())).reason == "forced_open"
    assert stage.guard.release(who="ops")
    assert stage.guard.state == "half_open"
    assert (await stage.call(Tool("back"))).value == "back"
    assert stage.heard.moves() == [
        ("closed", "forced_open", "manual"),
        ("forced_open", "half_open", "manual"),
        ("half_open", "closed", "trial"),
    ]
    assert [(s.kind, s.who) for s in stage.heard.of(OverrideChanged)] == [
        ("open", "ops"),
        ("none", "ops"),
    ]


@simulated
async def test_forced_closed_measures_and_never_opens() -> None:
    """A hundred failures pass through; released, it is closed with a clean slate."""
    stage = Stage(fail_max=2)
    await stage.open()
    stage.guard.force_closed(who="ops", why="we know better")
    tool = Tool(OSError())
    for _ in range(100):
        await stage.call(tool)

    assert tool.calls == 100
    assert stage.guard.state == "forced_closed"
    assert stage.guard.snapshot()["window"]["failure_ratio"] == 1
    stage.guard.release(who="ops")
    assert stage.guard.state == "closed"
    assert stage.guard.snapshot()["window"]["calls"] == 0
    await stage.call(tool)
    assert stage.guard.state == "closed"


@simulated
async def test_an_override_ends_by_itself() -> None:
    """With `until` nobody has to remember to release it, and rejections say how long."""
    stage = Stage()
    stage.guard.force_open(who="ops", why="drill", until=stage.loop.wall() + 60)
    await asyncio.sleep(20)

    rejected = stage.guard.peek()
    assert rejected is not None
    assert rejected.retry_after_seconds == pytest.approx(40)
    await asyncio.sleep(40)
    assert stage.guard.state == "half_open"
    assert stage.heard.of(OverrideChanged)[-1].who == "timer"


@simulated
async def test_calls_of_before_an_override_end_late() -> None:
    """Five failures that began before forced_closed do not open it after the release."""
    stage = Stage(fail_max=1)
    late = [asyncio.create_task(stage.call(Tool((1, OSError())))) for _ in range(5)]
    await until(lambda: stage.guard.bulkhead.in_use == 5)
    stage.guard.force_closed(who="ops", why="drill")
    stage.guard.release(who="ops")
    await asyncio.gather(*late)

    assert stage.guard.state == "closed"
    assert stage.heard.counted("late") == 5


@simulated
async def test_calls_of_during_an_override_end_late_as_well() -> None:
    """A failure that was let through by force does not count once the force is gone."""
    stage = Stage(fail_max=1)
    stage.guard.force_closed(who="ops", why="drill")
    call = asyncio.create_task(stage.call(Tool((1, OSError()))))
    await until(lambda: stage.guard.bulkhead.in_use == 1)
    stage.guard.release(who="ops")
    await call

    assert (stage.guard.state, stage.guard.snapshot()["window"]["calls"]) == ("closed", 0)


@simulated
async def test_metrics_only_tells_when_it_would_have_opened() -> None:
    """Nothing is rejected; each time the rule is met it is counted with its cause."""
    stage = Stage(metrics_only=True, fail_max=3)
    tool = Tool(OSError())
    for _ in range(7):
        await stage.call(tool)

    assert (tool.calls, stage.guard.state) == (7, "metrics_only")
    assert stage.heard.counted("would_open") == 2
    stage.guard.force_open(who="ops", why="now really")
    assert (await stage.call(tool)).reason == "forced_open"
    stage.guard.release(who="ops")
    assert stage.guard.state == "metrics_only"


@pytest.mark.parametrize("metrics_only", [True, False])
@simulated
async def test_no_hold_stops_what_is_forced_through(metrics_only: bool) -> None:
    """Forced closed, or only measuring, a Retry-After holds nobody back."""
    stage = Stage(metrics_only=metrics_only)
    if not metrics_only:
        stage.guard.force_closed(who="ops", why="we know better")
    await stage.call(
        Tool(AttemptFailed(kind="rate_limited", status_code=429, retry_after_seconds=9))
    )

    assert (await stage.call(Tool("ok"))).value == "ok"


@simulated
async def test_the_fleets_advice_opens_for_as_long_as_it_says() -> None:
    """Only a plainly closed breaker follows; it comes back through a trial of its own."""
    stage = Stage()

    assert stage.guard.admission.advise_open(7)
    assert not stage.guard.admission.advise_open(700)
    assert stage.guard.open_seconds_left == 7
    await asyncio.sleep(7)
    assert (await stage.call(Tool("back"))).value == "back"
    assert stage.heard.moves()[0] == ("closed", "open", "fleet")
    stage.guard.force_closed(who="ops", why="drill")
    assert not stage.guard.admission.advise_open(7)


@simulated
async def test_the_fleets_advice_opens_for_no_longer_than_a_worker_would_by_itself() -> None:
    """Somebody of other settings, or a damaged row, shuts nobody out for ever."""
    stage = Stage(open_seconds_max=20, throttle_seconds_max=90)

    assert stage.guard.admission.advise_open(1e308)
    assert stage.guard.open_seconds_left == 90


@simulated
async def test_windows_double_up_to_the_bound_and_start_anew_after_a_close() -> None:
    """5, 10, 20, 20; after a recovery 5 again."""
    stage = Stage(fail_max=1, open_seconds=5, open_seconds_max=20)
    windows = []
    for _ in range(4):
        await stage.call(Tool(OSError()))
        windows.append(stage.guard.open_seconds_left)
        await asyncio.sleep(stage.guard.open_seconds_left or 0)
    await stage.call(Tool("back"))
    await stage.call(Tool(OSError()))

    assert windows == pytest.approx([5, 10, 20, 20])
    assert stage.guard.open_seconds_left == pytest.approx(5)


@pytest.mark.parametrize(("random", "window"), [(0.0, 9.0), (0.5, 10.0), (1.0, 11.0)])
def test_windows_are_jittered_by_a_tenth(random: float, window: float) -> None:
    """Workers that opened together do not come back together."""

    @simulated
    async def check() -> None:
        stage = Stage(random=random, fail_max=1, open_seconds=10)
        await stage.call(Tool(OSError()))
        assert stage.guard.open_seconds_left == pytest.approx(window)

    check()


@simulated
async def test_two_successes_needed_are_two_trials_one_after_another() -> None:
    """With success_threshold 2 the first good trial leaves it half-open for a second."""
    stage = Stage(fail_max=1, success_threshold=2)
    await stage.half_open_due()
    tool = Tool((1, "ok"))
    first = await asyncio.gather(*(stage.call(tool) for _ in range(5)))

    assert (tool.calls, stage.guard.state) == (1, "half_open")
    assert [outcome.reason for outcome in first].count("trial_in_flight") == 4
    await stage.call(tool)
    assert stage.guard.state == "closed"


@simulated
async def test_half_failed_opens_it_though_never_many_in_a_row() -> None:
    """Failure and success in turn, ten times: the ratio of 50 % opens it."""
    stage = Stage(fail_max=5)
    tool = Tool(*[OSError(), "ok"] * 5)
    for _ in range(9):
        await stage.call(tool)
    assert stage.guard.state == "closed"
    await stage.call(tool)

    assert stage.heard.moves() == [("closed", "open", "failure_rate")]


@simulated
async def test_someone_elses_hand_on_pybreaker_is_noticed() -> None:
    """A change of state by anyone begins an era, frees the trial and is announced."""
    stage = Stage(fail_max=1)
    await stage.half_open_due()
    trial = asyncio.create_task(stage.call(Tool((9, "x")), timeout_seconds=10))
    await until(lambda: stage.guard.snapshot()["trial_in_flight"])
    era = stage.guard.snapshot()["era"]
    stage.guard.admission.breaker._circuit.close()

    seen = stage.guard.snapshot()
    assert (seen["state"], seen["era"], seen["trial_in_flight"]) == ("closed", era + 1, False)
    assert stage.heard.moves()[-1] == ("half_open", "closed", "manual")
    await trial


@simulated
async def test_the_layers_are_described_in_their_order() -> None:
    """describe() is the picture of the docstring as data."""
    stage = Stage()
    policy = call_policy(attempts=3, fallback=Fallback(alternative=Tool(), stub="x"))

    layers = stage.guard.describe(policy)

    assert [layer["layer"] for layer in layers] == [
        "fallback",
        "deadline",
        "retry",
        "bulkhead",
        "breaker",
        "attempt",
    ]
    assert layers[0]["rungs"] == ["alternative", "stub"]
    assert layers[2]["attempts"] == 3


def test_guards_are_one_per_dependency() -> None:
    """The same name gives the same guard, with its own policy where there is one."""
    guards = Guards(Telemetry(), GuardPolicy(), {"model": GuardPolicy(open_seconds=10)})

    assert guards.get("quotes") is guards.get("quotes")
    assert guards.get("model").policy.open_seconds == 10
    assert guards.find("qoutes") is None
    assert [guard.name for guard in guards.all()] == ["model", "quotes"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"fail_max": 0},
        {"failure_ratio": 1.5},
        {"window_calls_min": 21},
        {"open_seconds": 61},
        {"limit": -1},
        {"queue_seconds": -0.1},
    ],
)
def test_a_policy_that_cannot_work_names_its_field(wrong: dict[str, float]) -> None:
    """ConfigError at start, not a surprise at night."""
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        GuardPolicy(**wrong)  # type: ignore[arg-type]


def test_doubtful_relations_are_named_and_defaults_are_not_doubtful() -> None:
    """fail_max under attempts + 2, or a window within the time limit, is worth a warning."""
    call = CallPolicy("tool", "quote", timeout_seconds=4)
    assert doubts(GuardPolicy(), call) == []

    found = doubts(GuardPolicy(fail_max=3, open_seconds=2), call)

    assert ["fail_max" in found[0], "open_seconds" in found[1]] == [True, True]
