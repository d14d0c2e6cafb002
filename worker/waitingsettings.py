"""The knobs of what runs wait for from outside: decisions and jobs."""

from __future__ import annotations

from pydantic import Field

from worker.section import Names, Seconds, Section

_MONTH = 2_592_000


class WaitingSettings(Section):
    """How long a run waits for a person or a job. While it waits it holds nothing."""

    approval_seconds: Seconds = Field(
        86_400.0, ge=1, le=_MONTH, description="How long a call waits for its approval."
    )
    approvals: Names = Field(
        (),
        description="Tools whose calls a person has to allow, beside those that say so; -name takes back.",
    )
    approved_seconds: Seconds = Field(
        3600.0, ge=1, le=_MONTH, description="How long an approval may be used once it is given."
    )
    job_seconds: Seconds = Field(
        86_400.0, ge=1, le=_MONTH, description="How long a run waits for a job that names no time."
    )
    poll_seconds: Seconds = Field(
        30.0, ge=1, le=86_400, description="When a job is asked for first that names no time."
    )
