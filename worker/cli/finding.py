"""What one check of `doctor` found, and a check that always comes back with that."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from worker.cli.exits import ANSWERED, UNREACHABLE, USAGE

if TYPE_CHECKING:
    from worker.model.dialect import Trait

CHECK_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found. `code` is the exit code it asks for; 0 when all is well.

    `trait` is there when the finding is about the model's dialect. `is_odd`: it works, and could be
    better.
    """

    what: str
    text: str
    code: int = ANSWERED
    trait: Trait | None = None
    is_odd: bool = False

    @property
    def mark(self) -> str:
        """The word in front: ok, odd or FAIL."""
        if self.code or (self.trait and self.trait.verdict == "wrong"):
            return "FAIL"
        is_odd = self.is_odd or (self.trait is not None and self.trait.verdict == "quirk")
        return "odd" if is_odd else "ok"

    def as_data(self) -> dict[str, Any]:
        """Return the finding as plain data."""
        data = {"what": self.what, "ok": self.mark != "FAIL", "text": self.text}
        return data if self.trait is None else {**data, **self.trait.as_data()}


async def checked(what: str, check: Awaitable[Finding]) -> Finding:
    """Wait for a check, within its time; what it raises is a finding as well."""
    from worker.core.errors import AttemptFailed, ConfigError, FileTooNew, WorkerError

    try:
        async with asyncio.timeout(CHECK_SECONDS):
            return await check
    except FileTooNew as error:
        return Finding(what, str(error), UNREACHABLE)
    except ConfigError as error:
        return Finding(what, str(error), USAGE)
    except TimeoutError:
        return Finding(what, f"no answer within {CHECK_SECONDS:g} s", UNREACHABLE)
    except (AttemptFailed, WorkerError) as error:
        cause = f" ({error.__cause__})" if error.__cause__ else ""
        return Finding(what, f"{error}{cause}", UNREACHABLE)
