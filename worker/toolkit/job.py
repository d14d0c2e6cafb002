"""What a tool returns that has begun something longer than a step: the handle of a job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from worker.core.errors import AttemptFailed
from worker.core.waiting import HANDLE_CHARS_MAX, is_handle

SECONDS_MIN, SECONDS_MAX = 1.0, 30 * 86_400.0


class NotAJob(AttemptFailed):
    """The tool came back, but not with a job that could be waited for; it may have begun one."""

    def __init__(self, message: str) -> None:
        super().__init__(message, retryable=False)


@dataclass(frozen=True, slots=True)
class Job:
    """A job under way, returned by a tool with `job=True`; the run waits for it, holding nothing.

    Its result is whatever is sent to `POST /v1/jobs/{handle}`, or what the tool's `poll` finds.
    Without a handle of its own the job goes by the call's idempotency key (`ctx.idempotency_key`),
    so tell that to whoever is to report. A handle must not be used for two jobs. `expires_seconds`
    is how long the run waits, `poll_after_seconds` when `poll` is asked for the first time.
    """

    handle: str | None = None
    expires_seconds: float | None = None
    poll_after_seconds: float | None = None


def begun(value: Any, *, key: str) -> dict[str, Any]:
    """What a job tool returned, as JSON: a `Job`, or the handle alone. `key` is its default.

    Raises NotAJob, after which nothing is tried again: the job may have begun all the same.
    """
    job = Job(value) if isinstance(value, str) else value
    if not isinstance(job, Job):
        raise NotAJob(
            f"a tool with job=True returns Job(…) or a handle, not {type(value).__name__}",
        )
    handle = key if job.handle is None else job.handle
    if not is_handle(handle):
        raise NotAJob(
            f"the handle of a job must be 1 to {HANDLE_CHARS_MAX} printable characters without"
            f" spaces, not {str(handle)[:50]!r}",
        )
    for name in ("expires_seconds", "poll_after_seconds"):
        if not _is_time(getattr(job, name)):
            raise NotAJob(
                f"{name} of a job must be from 1 s to 30 days, not {getattr(job, name)!r}",
            )
    return {
        "handle": handle,
        "expires_seconds": job.expires_seconds,
        "poll_after_seconds": job.poll_after_seconds,
    }


def _is_time(seconds: Any) -> bool:
    if seconds is None:
        return True
    is_number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
    return is_number and SECONDS_MIN <= seconds <= SECONDS_MAX
