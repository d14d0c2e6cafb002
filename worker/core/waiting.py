"""What the calls of a reply wait for: a person's decision, or the result of a job.

    asked ──Decided(approved)──▶ may run, until the approval expires ──▶ … ToolReturned
      ├──── Decided(denied) ───▶ told that it was denied
      └──── time is over ──────▶ told that nobody decided
    job begun ──ToolReturned (reported, or found by asking)
      └──── time is over ──────▶ told that it did not report

Belongs to the loop, which holds the calls; facts come in by `apply`, `sort` decides.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from worker.core.errors import IllegalEvent
from worker.core.events import ApprovalAsked, CallHeld, Decided, JobPolled, JobStarted
from worker.core.messages import Observation, Source, ToolCall
from worker.core.observing import error_text
from worker.core.texts import APPROVAL_DENIED, APPROVAL_EXPIRED, JOB_LATE

WaitingEvent = ApprovalAsked | Decided | JobStarted | JobPolled | CallHeld
HANDLE_CHARS_MAX = 200
_WHY_CHARS_MAX = 500


@dataclass(slots=True)
class Sorted:
    """What is to be done now with calls that have no observation yet.

    `until` is when one of the `waiting` calls is due by itself.
    """

    runnable: list[ToolCall] = field(default_factory=list)
    approved: set[str] = field(default_factory=set)
    polls: list[tuple[ToolCall, JobStarted]] = field(default_factory=list)
    answered: list[tuple[ToolCall, Observation]] = field(default_factory=list)
    waiting: list[ToolCall] = field(default_factory=list)
    until: float | None = None

    def wait(self, call: ToolCall, until: float | None) -> None:
        """Leave a call waiting until a time; None: until something else happens."""
        self.waiting.append(call)
        if until is not None:
            self.until = until if self.until is None else min(self.until, until)


class Waiting:
    """The waiting calls of one run, by their ids."""

    def __init__(self) -> None:
        self.asked: dict[str, ApprovalAsked] = {}
        self.decided: dict[str, Decided] = {}
        self.jobs: dict[str, JobStarted] = {}
        self.poll_at: dict[str, float | None] = {}
        self.held: dict[str, str] = {}  # behind which call
        self.was_used = False  # whether any call of this run has ever waited

    def __bool__(self) -> bool:
        return bool(self.asked or self.jobs)

    def __repr__(self) -> str:
        return (
            f"Waiting({len(self.asked)} asked, {len(self.decided)} decided, {len(self.jobs)} jobs)"
        )

    # --- facts -----------------------------------------------------------------------------------

    def apply(self, event: WaitingEvent) -> None:
        """Take a fact about a call in that has no observation. Raises IllegalEvent."""
        call_id = event.call_id
        self.was_used = True
        match event:
            case ApprovalAsked():
                _refuse_second(call_id, self.asked, event)
                self.asked[call_id] = event
            case Decided():
                _refuse_second(call_id, self.decided, event)
                self.decided[call_id] = event
            case JobStarted():
                _refuse_second(call_id, self.jobs, event)
                self.jobs[call_id] = event
                self.poll_at[call_id] = event.poll_at
            case JobPolled():
                if call_id not in self.jobs:
                    raise IllegalEvent(f"JobPolled for call {call_id!r}, which has begun no job")
                self.poll_at[call_id] = event.poll_at
            case CallHeld():
                self.held[call_id] = event.behind

    def forget(self, call_id: str) -> None:
        """The call has its observation."""
        self.asked.pop(call_id, None)
        self.decided.pop(call_id, None)
        self.jobs.pop(call_id, None)
        self.poll_at.pop(call_id, None)
        self.held = {held: behind for held, behind in self.held.items() if behind != call_id}

    # --- policy ----------------------------------------------------------------------------------

    def undecided(self, call_id: str) -> bool:
        """Whether news from outside would get this call on."""
        return call_id in self.jobs or (call_id in self.asked and call_id not in self.decided)

    def waits(self, call_id: str) -> bool:
        """Whether this call can do nothing by itself now."""
        return call_id in self.held or self.undecided(call_id)

    def reason(self, calls: Iterable[ToolCall]) -> str:
        """Say in a word what these calls wait for."""
        undecided = (c.id in self.asked and c.id not in self.jobs for c in calls)
        return "approval" if any(undecided) else "job"

    def sort(
        self, calls: Iterable[ToolCall], *, in_doubt: set[str], now: float, language: str
    ) -> Sorted:
        """Decide which calls run, are asked for, are told that it is too late, or wait."""
        found = Sorted()
        for call in calls:
            if call.id in self.held:
                found.wait(call, None)
            elif call.id in self.jobs:
                self._sort_job(call, found, now, language)
            elif call.id in self.asked and call.id not in in_doubt:
                self._sort_asked(call, found, now, language)
            else:
                found.runnable.append(call)
        return found

    def _sort_job(self, call: ToolCall, found: Sorted, now: float, language: str) -> None:
        job, poll_at = self.jobs[call.id], self.poll_at[call.id]
        if poll_at is not None and now >= poll_at:
            # Also when its time is over: it may be done, and nobody was there to ask.
            found.polls.append((call, job))
        elif now >= job.expires_at:
            found.answered.append((call, late(job, call, language=language)))
        else:
            found.wait(call, job.expires_at if poll_at is None else min(poll_at, job.expires_at))

    def _sort_asked(self, call: ToolCall, found: Sorted, now: float, language: str) -> None:
        asked, decided = self.asked[call.id], self.decided.get(call.id)
        if decided is None or decided.arguments_hash != asked.arguments_hash:
            if now < asked.expires_at:
                return found.wait(call, asked.expires_at)
            found.answered.append((call, expired(call, language=language)))
        elif not decided.approved:
            found.answered.append((call, denied(call, decided, language=language)))
        elif decided.expires_at is not None and now >= decided.expires_at:
            found.answered.append((call, expired(call, language=language)))
        else:
            found.runnable.append(call)
            found.approved.add(call.id)
        return None


def is_handle(handle: object) -> bool:
    """Whether a job may go by this name: it has to fit into an address and into a log line."""
    if not isinstance(handle, str) or not 0 < len(handle) <= HANDLE_CHARS_MAX:
        return False
    return handle.isprintable() and " " not in handle


def denied(call: ToolCall, decided: Decided, *, language: str) -> Observation:
    """A person said no; the call was never run."""
    text = APPROVAL_DENIED[language].format(tool=call.name)
    more = {"reason": decided.why[:_WHY_CHARS_MAX]} if decided.why else {}
    return _never_run("approval_denied", text, more)


def expired(call: ToolCall, *, language: str) -> Observation:
    """Nobody decided in time, or the approval was not used in time; the call was never run."""
    return _never_run("approval_expired", APPROVAL_EXPIRED[language].format(tool=call.name), {})


def late(job: JobStarted, call: ToolCall, *, language: str) -> Observation:
    """A job did not report in time; what it changes may be changed already, or may be yet."""
    minutes = max(1, round((job.expires_at - job.at) / 60))
    text = JOB_LATE[language].format(tool=call.name, minutes=minutes)
    return Observation(
        error_text("job_expired", text),
        Source.UNKNOWN if job.effect == "write" else Source.ERROR,
        error_type="timeout",
        reason="job_expired",
        status_code=504,
        dependency_failed=True,
    )


def _never_run(reason: str, text: str, more: dict[str, str]) -> Observation:
    content = error_text(reason, text, **more)
    return Observation(content, Source.SKIPPED, reason=reason, status_code=403)


def _refuse_second(call_id: str, known: Collection[str], event: object) -> None:
    if call_id in known:
        raise IllegalEvent(f"a second {type(event).__name__} for call {call_id!r}")
