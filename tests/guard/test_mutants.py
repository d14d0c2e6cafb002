"""Each rule of the guard is held by a test: with the rule removed, that test fails."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

import pytest

from tests.guard import test_attempt as attempts
from tests.guard import test_overrides as overrides
from tests.guard import test_retry_and_fallback as retries
from tests.guard import test_scenarios_breaker as breakers
from tests.guard import test_scenarios_calls as calls
from worker.core.errors import Rejected
from worker.guard import guard as guard_module
from worker.guard.admission import Admission, Permit
from worker.guard.attempt import Runner
from worker.guard.breaker import Breaker
from worker.guard.bulkhead import Bulkhead
from worker.guard.fallback import Ladder
from worker.guard.guard import Guard
from worker.guard.retry import RetryBudget, _Rounds
from worker.guard.verdict import SUCCEEDED, Ruling, Verdict, rule
from worker.guard.window import RateWindow
from worker.testing.simclock import SimStuck

Patch = pytest.MonkeyPatch


def around(patch: Patch, owner: Any, name: str, mutant: Callable[..., Any]) -> None:
    """Replace a method by one that gets the original first."""
    original = getattr(owner, name)
    patch.setattr(owner, name, lambda *args, **kwargs: mutant(original, *args, **kwargs))


def eras_are_ignored(patch: Patch) -> None:
    """Late results are replayed as if they were of today."""

    def settle(original: Any, self: Admission, permit: Permit, *args: Any, **kwargs: Any) -> Any:
        if permit.era != self.breaker.era and self.breaker.state != "open":
            permit = Permit(self.breaker.era, permit.is_trial, permit.throttles)
        if self.breaker.state == "open":
            self.breaker.half_open(cause="manual")
            permit = Permit(self.breaker.era, False, 0)
        return original(self, permit, *args, **kwargs)

    around(patch, Admission, "_settle", settle)


def every_caller_is_a_trial(patch: Patch) -> None:
    """Half-open admits everybody."""

    def objection(original: Any, self: Admission, at: float) -> Any:
        self._trial = None
        return original(self, at)

    around(patch, Admission, "_objection", objection)


def neutral_keeps_the_trial(patch: Patch) -> None:
    """A neutral trial never gives its slot back."""

    def settle(original: Any, self: Admission, permit: Permit, ruling: Ruling, slow: bool) -> Any:
        verdict = original(self, permit, ruling, slow)
        if permit.is_trial and verdict is Verdict.NEUTRAL:
            self._trial = permit
        return verdict

    around(patch, Admission, "_settle", settle)


def neutral_is_success(patch: Patch) -> None:
    """What pybreaker's `exclude` would do."""

    def settle(original: Any, self: Admission, permit: Permit, ruling: Ruling, slow: bool) -> Any:
        neutral = ruling.verdict is Verdict.NEUTRAL
        return original(self, permit, SUCCEEDED if neutral else ruling, slow)

    around(patch, Admission, "_settle", settle)


def cancelled_is_failure(patch: Patch) -> None:
    """What pybreaker's `calling` would do."""
    patch.setattr(guard_module, "CANCELLED", Ruling(Verdict.FAILURE, "cancelled", "cancelled"))


def peeking_takes(patch: Patch) -> None:
    """Asking uses up the trial."""

    def peek(_original: Any, self: Admission, **_kwargs: Any) -> Any:
        answer = self.admit()
        return answer if isinstance(answer, Rejected) else None

    around(patch, Admission, "peek", peek)


def a_slot_is_enough(patch: Patch) -> None:
    """The breaker is not asked again after waiting in the queue."""
    permit = Permit(0, False, 0)
    patch.setattr(Admission, "admit", lambda self: permit)


def noticing_extends_the_window(patch: Patch) -> None:
    """Each rejection starts the open window anew."""

    def note(original: Any, self: Admission, rejected: Rejected) -> None:
        self.breaker.open_until = self._clock() + self.policy.open_seconds
        original(self, rejected)

    around(patch, Admission, "note_rejected", note)


def slow_is_fine(patch: Patch) -> None:
    """Only failures count in the window."""
    around(
        patch, RateWindow, "add", lambda add, self, failed, slow: add(self, failed=failed, slow=0)
    )


def rates_are_ignored(patch: Patch) -> None:
    """Only failures in a row open it."""
    patch.setattr(RateWindow, "objection", lambda self: None)


def slow_trials_close(patch: Patch) -> None:
    """A trial may take as long as it likes."""

    def settle(original: Any, self: Admission, permit: Permit, ruling: Ruling, slow: bool) -> Any:
        return original(self, permit, ruling, slow and not permit.is_trial)

    around(patch, Admission, "_settle", settle)


def windows_never_grow(patch: Patch) -> None:
    """Every open window is the first one."""

    def window(original: Any, self: Breaker) -> float:
        self.opens = 0
        return float(original(self))

    around(patch, Breaker, "_next_window", window)


def rejections_are_retried(patch: Patch) -> None:
    """Any error is worth another attempt."""
    patch.setattr(_Rounds, "worth", lambda self, tried: tried.error is not None)


def the_breaker_does_not_stop_retries(patch: Patch) -> None:
    """The loop sleeps in front of an open breaker."""

    def stop(original: Any, self: _Rounds, state: Any) -> Any:
        peek, self._retry.peek = self._retry.peek, lambda seconds: None
        try:
            return original(self, state)
        finally:
            self._retry.peek = peek

    around(patch, _Rounds, "stop", stop)


def budgets_are_endless(patch: Patch) -> None:
    """Retries are for free."""
    patch.setattr(RetryBudget, "spend", lambda self: True)


def writes_are_repeated(patch: Patch) -> None:
    """Nobody asks whether the request went out."""
    patch.setattr(_Rounds, "is_barred", lambda self, tried: False)


def hints_are_ignored(patch: Patch) -> None:
    """Retry-After is not read."""
    patch.setattr("worker.guard.verdict.parse_retry_after", lambda text, now: None)


def holds_are_ignored(patch: Patch) -> None:
    """A throttled dependency is called by everybody else."""

    def objection(original: Any, self: Admission, at: float) -> Any:
        self._held_until = None
        return original(self, at)

    around(patch, Admission, "_objection", objection)


def slots_die_with_their_waiter(patch: Patch) -> None:
    """A slot that was granted to a cancelled waiter is lost."""

    async def acquire(original: Any, self: Bulkhead, *, seconds: float) -> None:
        release, self.release = self.release, lambda: None  # type: ignore[method-assign]
        try:
            await original(self, seconds=seconds)
        finally:
            self.release = release  # type: ignore[method-assign]

    around(patch, Bulkhead, "acquire", acquire)


def slots_come_back_too_early(patch: Patch) -> None:
    """The waiter's slot, not the work's: freed when the time limit is over."""

    async def stop(original: Any, self: Runner, task: Any) -> None:
        await original(self, task)
        if not task.done() and self._bulkhead is not None:
            self._bulkhead.in_use -= 1

    around(patch, Runner, "_stop", stop)


def deaf_tools_are_waited_for(patch: Patch) -> None:
    """What asyncio.timeout would do."""

    async def stop(_original: Any, _self: Runner, task: Any) -> None:
        task.cancel()
        await asyncio.wait([task])

    around(patch, Runner, "_stop", stop)


def deadlines_are_failures(patch: Patch) -> None:
    """A caller without time makes the dependency look broken."""
    patch.setattr(Guard, "_rule", lambda self, error, policy, limit: rule(error))


def stubs_are_remembered(patch: Patch) -> None:
    """The stub goes into the last good values."""

    async def climb(original: Any, self: Ladder, policy: Any, *, key: str, **rest: Any) -> Any:
        rung = await original(self, policy, key=key, **rest)
        if rung is not None:
            await self.remember(policy.fallback, key=key, value=rung.value)
        return rung

    around(patch, Ladder, "climb", climb)


def keys_have_no_scope(patch: Patch) -> None:
    """One tenant's value is everybody's."""
    patch.setattr(guard_module, "stale_key", lambda scope, target, key: f"{target}/{key}")


def overrides_never_end(patch: Patch) -> None:
    """`until` is not looked at."""
    patch.setattr(Admission, "_expire", lambda self: None)


MUTANTS: list[tuple[Callable[[Patch], None], Callable[[], Any]]] = [
    (eras_are_ignored, breakers.test_row_11_late_failures_open_nothing_again),
    (eras_are_ignored, breakers.test_row_12_a_late_success_closes_nothing),
    (every_caller_is_a_trial, breakers.test_row_09_one_trial_at_a_time),
    (neutral_keeps_the_trial, breakers.test_row_14_a_neutral_trial_neither_sticks_nor_closes),
    (neutral_keeps_the_trial, breakers.test_row_14_a_cancelled_trial_frees_its_slot),
    (neutral_is_success, breakers.test_row_14_a_neutral_trial_neither_sticks_nor_closes),
    (neutral_is_success, breakers.test_row_16_neutral_trials_never_use_up_the_permits),
    (cancelled_is_failure, calls.test_row_19_cancellations_open_nothing),
    (peeking_takes, breakers.test_row_18_peeking_takes_nothing),
    (a_slot_is_enough, attempts.test_the_breaker_is_asked_again_when_a_slot_comes),
    (noticing_extends_the_window, breakers.test_row_04_noticing_open_does_not_extend_the_window),
    (slow_is_fine, breakers.test_row_24_slow_successes_open_it),
    (slow_trials_close, breakers.test_row_24_a_slow_trial_is_no_recovery),
    (rates_are_ignored, overrides.test_half_failed_opens_it_though_never_many_in_a_row),
    (
        windows_never_grow,
        overrides.test_windows_double_up_to_the_bound_and_start_anew_after_a_close,
    ),
    (rejections_are_retried, calls.test_row_25_a_rejection_is_never_retried),
    (the_breaker_does_not_stop_retries, calls.test_row_25_an_open_breaker_ends_the_retries),
    (budgets_are_endless, retries.test_an_empty_budget_stops_retries_and_not_first_attempts),
    (hints_are_ignored, calls.test_row_40_retry_after_in_seconds_is_waited_for),
    (hints_are_ignored, calls.test_row_40_a_hint_beyond_the_deadline_is_told_at_once),
    (holds_are_ignored, calls.test_row_40_a_throttled_dependency_is_left_alone),
    (
        slots_die_with_their_waiter,
        calls.test_row_21_a_slot_granted_to_a_cancelled_waiter_is_passed_on,
    ),
    (
        slots_come_back_too_early,
        attempts.test_a_deaf_async_tool_is_left_behind_and_keeps_its_slot,
    ),
    (
        deaf_tools_are_waited_for,
        attempts.test_a_deaf_async_tool_is_left_behind_and_keeps_its_slot,
    ),
    (deadlines_are_failures, calls.test_row_19_the_callers_deadline_opens_nothing),
    (stubs_are_remembered, calls.test_row_28_a_stub_is_never_taken_for_a_good_value),
    (keys_have_no_scope, retries.test_last_good_values_of_one_tenant_never_reach_another),
    (overrides_never_end, overrides.test_an_override_ends_by_itself),
]


@pytest.mark.parametrize(
    ("mutate", "test"),
    MUTANTS,
    ids=[f"{mutate.__name__}-{test.__name__}" for mutate, test in MUTANTS],
)
def test_a_removed_rule_is_noticed(
    mutate: Callable[[Patch], None], test: Callable[[], Any], monkeypatch: Patch
) -> None:
    """The named test passes with the rule and fails without it."""
    assert not inspect.iscoroutinefunction(test), "only tests in simulated time are run here"
    test()
    mutate(monkeypatch)

    with pytest.raises((AssertionError, SimStuck)):
        test()


def test_a_write_that_may_have_been_sent_is_noticed_when_repeated(monkeypatch: Patch) -> None:
    """The same for the rule about writes, whose test takes arguments."""
    test = retries.test_a_write_is_tried_again_only_if_nothing_was_sent
    arguments: tuple[Any, ...] = (ConnectionResetError(), 1, ["not_idempotent"])
    test(*arguments)
    writes_are_repeated(monkeypatch)

    with pytest.raises(AssertionError):
        test(*arguments)
