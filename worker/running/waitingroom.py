"""Calls that wait for something from outside: said to the mailbox, and heard from it.

The journal comes first. What the mailbox expects is made whole from it whenever a run is taken up,
so a crash between the two costs nothing; what has come meanwhile is found there, whoever was down.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from worker.core.digest import canonical, idempotency_key
from worker.core.events import ApprovalAsked, Decided, Event, JobStarted
from worker.core.loop import Loop
from worker.core.messages import Observation, Source, ToolCall
from worker.core.observing import error_text
from worker.core.task import Task
from worker.registry import Registry, Tool
from worker.running.recorder import Recorder
from worker.store.mailbox import Expectation, Mailbox, Posted, approval_address, job_address
from worker.telemetry.signals import ApprovalDecided, JobBegun, JobReported
from worker.telemetry.tell import Telemetry
from worker.toolresult import normalise_result

_ERROR_CHARS_MAX = 500
_POLL_SHARE = 0.05  # of a job's age, between two questions for it
POLL_SECONDS_MIN = 1.0  # each question is a fact in the journal and a delivery of the task

Answer = Callable[[ToolCall, Observation, int, Recorder], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class WaitingOptions:
    """How long calls wait, in seconds, and what becomes of the text that they get."""

    approval_seconds: float = 86_400.0
    approved_seconds: float = 3600.0
    job_seconds: float = 86_400.0
    poll_seconds: float = 30.0
    max_result_chars: int = 20_000
    redact: Callable[[str], str] = str


class WaitingRoom:
    """Looks after the waiting calls of any number of runs; it holds nothing of any of them."""

    def __init__(
        self,
        mail: Mailbox,
        registry: Registry,
        telemetry: Telemetry,
        options: WaitingOptions,
        *,
        wall: Callable[[], float],
    ) -> None:
        self.options = options
        self._mail = mail
        self._registry = registry
        self._telemetry = telemetry
        self._wall = wall

    async def ask(self, call: ToolCall, task: Task, recorder: Recorder) -> None:
        """Ask a person about a call, instead of making it."""
        now = self._wall()
        digest = call.digest
        asked = ApprovalAsked(now, call.id, digest, now + self.options.approval_seconds)
        await recorder.record(asked)
        await self._expect(call, task, recorder.loop)

    async def begin(
        self,
        call: ToolCall,
        job: JobStarted,
        task: Task,
        recorder: Recorder,
        *,
        also: Sequence[Event] = (),
    ) -> None:
        """Note that a call has begun a job, `also` what else came of it."""
        await recorder.record(job, *also)
        await self._expect(call, task, recorder.loop)
        self._telemetry.tell(JobBegun(task.id, call.name, call.id, job.handle, job.expires_at))

    def started(self, call: ToolCall, tool: Tool, begun: Mapping[str, Any]) -> JobStarted:
        """The fact that a call has begun a job, from what `toolkit.job.begun` says of it."""
        now = self._wall()
        poll_at = None
        if tool.poll is not None:
            poll_at = now + (begun.get("poll_after_seconds") or self.options.poll_seconds)
        expires_at = now + (begun.get("expires_seconds") or self.options.job_seconds)
        if poll_at is not None:
            poll_at = min(poll_at, expires_at)
        return JobStarted(now, call.id, begun["handle"], expires_at, poll_at, tool.effect)

    def next_poll(self, job: JobStarted, wish_seconds: float | None) -> float | None:
        """When to ask for a job again; None when its time is over.

        The older a job, the longer the distance: a day of asking is some hundred facts.
        """
        now = self._wall()
        if now >= job.expires_at:
            return None
        first = (job.poll_at or job.at) - job.at
        distance = max(wish_seconds or first, (now - job.at) * _POLL_SHARE, POLL_SECONDS_MIN)
        return min(now + distance, job.expires_at)

    async def has_reported(self, key: str) -> bool:
        """Whether the result of a job has come that goes by this key."""
        return bool(await self._mail.read([job_address(key)]))

    async def hear(self, task: Task, recorder: Recorder, answer: Answer) -> None:
        """Take in what has come for this run, each of it once. `answer` tells of failed calls."""
        expected = expectations(recorder.loop, task)
        known = {e.address for e in await self._mail.expected(task.id) if not e.answered}
        for expectation in expected:
            if expectation.address not in known:
                await self._mail.expect(expectation)
        addresses = list(dict.fromkeys(e.address for e in expected))
        over = known.difference(addresses)
        for posted in await self._mail.read(addresses):
            for expectation in [e for e in expected if e.address == posted.address]:
                if await self._take(posted, expectation, recorder, answer):
                    over.add(posted.address)
        if over:
            await self._mail.answered(task.id, sorted(over))

    async def leave(self, run_id: str) -> None:
        """The run is at its end, and waits for nothing any more."""
        known = [e.address for e in await self._mail.expected(run_id) if not e.answered]
        if known:
            await self._mail.answered(run_id, known)

    async def _expect(self, call: ToolCall, task: Task, loop: Loop) -> None:
        for expectation in expectations(loop, task):
            if expectation.call_id == call.id:
                await self._mail.expect(expectation)

    async def _take(
        self, posted: Posted, expectation: Expectation, recorder: Recorder, answer: Answer
    ) -> bool:
        if expectation.kind == "job":
            await self._take_result(posted, expectation, recorder, answer)
            return True
        decided = self._decided(posted, expectation)
        if decided is None:
            return False
        await recorder.record(decided)
        self._telemetry.tell(
            ApprovalDecided(
                *(expectation.run_id, expectation.tool, expectation.call_id, expectation.digest),
                approved=decided.approved,
                who=decided.by,
                why=decided.why,
            )
        )
        return True

    async def _take_result(
        self, posted: Posted, expectation: Expectation, recorder: Recorder, answer: Answer
    ) -> None:
        loop = recorder.loop
        observation = self._observation(posted, expectation, loop)
        await answer(loop.pending[expectation.call_id], observation, loop.replies, recorder)
        self._telemetry.tell(
            JobReported(
                *(expectation.run_id, expectation.tool, expectation.call_id),
                handle=posted.address.partition(":")[2],
                outcome="success" if observation.source is Source.LIVE else "error",
                waited_seconds=max(0.0, posted.posted_at - expectation.asked_at),
            )
        )

    def _decided(self, posted: Posted, expectation: Expectation) -> Decided | None:
        said = _read(posted)
        if said.get("digest") != expectation.digest or posted.posted_at >= expectation.expires_at:
            return None  # about other arguments, or too late: as if nobody had said anything
        return Decided(
            at=self._wall(),
            call_id=expectation.call_id,
            approved=said.get("approved") is True,
            arguments_hash=expectation.digest,
            by=str(said.get("by", "")),
            why=str(said.get("why", "")),
            expires_at=posted.posted_at + self.options.approved_seconds,
        )

    def _observation(self, posted: Posted, expectation: Expectation, loop: Loop) -> Observation:
        said, call_id = _read(posted), expectation.call_id
        if said.get("error") is not None or "result" not in said:
            text = str(said.get("error") or "its result cannot be read")
            content = error_text("job_failed", self._bounded(text), tool=expectation.tool)
            return failed_job(content)
        tool = self._registry.get(expectation.tool)
        value = normalise_result(
            said["result"],
            max_chars=self.options.max_result_chars,
            language=loop.language,
            pages=tool is not None and tool.pages,
        )
        return Observation(
            value.content,
            Source.LIVE,
            result_bytes=value.result_bytes,
            empty=value.empty and loop.waiting.jobs[call_id].effect == "read",
        )

    def _bounded(self, text: str) -> str:
        return self.options.redact(text)[:_ERROR_CHARS_MAX]


def expectations(loop: Loop, task: Task) -> list[Expectation]:
    """What the calls of a run wait for now, as its journal has it."""
    found = []
    for call in loop.unanswered:
        if loop.waiting.undecided(call.id):
            found.append(_expectation(call, loop, task))
    return found


def _expectation(call: ToolCall, loop: Loop, task: Task) -> Expectation:
    job = loop.waiting.jobs.get(call.id)
    waits = job or loop.waiting.asked[call.id]
    key = idempotency_key(task.id, loop.replies, call.id)
    return Expectation(
        address=job_address(job.handle) if job else approval_address(key),
        run_id=task.id,
        call_id=call.id,
        kind="job" if job else "approval",
        tool=call.name,
        arguments=canonical(call.arguments),
        digest=call.digest,
        asked_at=waits.at,
        expires_at=waits.expires_at,
    )


def _read(posted: Posted) -> dict[str, Any]:
    try:
        said = json.loads(posted.body)
    except ValueError:  # taken by another run that had the same handle, or another program's
        return {}
    return said if isinstance(said, dict) else {}


def failed_job(content: str) -> Observation:
    """What the model reads of a job that failed."""
    return Observation(
        content,
        Source.ERROR,
        error_type="internal",
        reason="job_failed",
        status_code=502,
        result_bytes=len(content.encode("utf-8", "replace")),
        dependency_failed=True,
    )
