"""The rules by which operations hand a run over to a person."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from worker.section import Names, Section

RULES_MAX = 100


class HandoffRule(Section):
    """One rule: `LOOPWORKER_HANDOFF__LEGAL__TEXT=建议咨询律师`, or a table `[handoff.legal]`.

    A rule of that name in a tool file is a function; here it can be narrowed or switched off.
    """

    enabled: bool = Field(True, description="False switches a rule off, also one of a tool file.")
    on: Literal["both", "answer", "results"] | None = Field(
        None, description="What the rule looks at: both (default), the answer, results of tools."
    )
    pattern: str | None = Field(
        None,
        min_length=1,
        max_length=1000,
        description="A regular expression, as in JSON schema; no look-around, no back-references.",
    )
    reason: str | None = Field(
        None, min_length=1, max_length=300, description="What the result says as the reason."
    )
    text: str | None = Field(
        None, min_length=1, max_length=1000, description="A text to find, in upper or lower case."
    )
    tools: Names = Field((), description="Look at the results of these tools only.")
