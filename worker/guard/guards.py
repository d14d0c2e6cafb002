"""All guards of this process, by the name of their dependency."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from worker.guard.guard import Guard
from worker.guard.policy import GuardPolicy
from worker.telemetry.tell import Telemetry


class Guards:
    """One guard per dependency, made when it is first asked for."""

    def __init__(
        self,
        telemetry: Telemetry,
        default: GuardPolicy | None = None,
        overrides: Mapping[str, GuardPolicy] | None = None,
        **clocks: Any,
    ) -> None:
        """Take the default policy and those of single dependencies.

        `clocks` (clock, wall, random, sleep) go to every guard; only tests need them.
        """
        self._telemetry = telemetry
        self._default = default or GuardPolicy()
        self._overrides = dict(overrides or {})
        self._clocks = clocks
        self._guards: dict[str, Guard] = {}

    def __repr__(self) -> str:
        return f"Guards({', '.join(map(repr, self.all()))})"

    def get(self, name: str) -> Guard:
        """Return the guard of a dependency; always the same one for the same name."""
        guard = self._guards.get(name)
        if guard is None:
            policy = self._overrides.get(name, self._default)
            guard = Guard(name, policy, telemetry=self._telemetry, **self._clocks)
            self._guards[name] = guard
        return guard

    def find(self, name: str) -> Guard | None:
        """Return a guard that exists already, for operators: a typing error makes no new one."""
        return self._guards.get(name)

    def all(self) -> tuple[Guard, ...]:
        """Return every guard made so far, by name."""
        return tuple(guard for _, guard in sorted(self._guards.items()))

    def close(self) -> None:
        """Let the idle threads of all guards go."""
        for guard in self.all():
            guard.close()
