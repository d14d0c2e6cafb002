"""What settings have to hold, alone and against each other."""

from __future__ import annotations

from collections.abc import Iterable

from worker.core.errors import ConfigError
from worker.core.prices import FORM
from worker.fallbacksettings import check_url
from worker.guardsettings import GuardSettings
from worker.loopsettings import steps_most
from worker.settings import Settings


def listening_address(value: str, *, setting: str) -> tuple[str, int] | None:
    """Read `host:port`, `[::1]:port`, `:port` (loopback) or `off`. Raises ConfigError."""
    text = value.strip()
    if text.lower() in ("off", "none", ""):
        return None
    host, _, port = text.rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    if not port.isascii() or not port.isdigit() or int(port) > 65535 or "/" in host:
        usual = Settings.model_fields["admin" if setting.endswith("ADMIN") else "http"].default
        raise ConfigError(f"{setting}: {value[:80]!r} is not an address; write {usual}, or off")
    return host, int(port)


def check(settings: Settings) -> None:
    """Hold settings against each other. Raises ConfigError.

    Options whose feature is not built yet are refused, never ignored (decisions.md 12).
    """
    worker = settings.worker
    listening_address(settings.admin, setting="LOOPWORKER_ADMIN")
    listening_address(settings.http, setting="LOOPWORKER_HTTP")
    if settings.model_url:
        check_url(settings.model_url, what="LOOPWORKER_MODEL_URL")
    settings.stand_ins()
    _check_guard(settings.guard)
    _check_steps(settings)
    unpriced = () if settings.loop.cost_max is None else settings.unpriced_models()
    _require(
        not unpriced,
        "LOOPWORKER_LOOP__COST_MAX: LOOPWORKER_PRICES has no price of"
        f" {', '.join(unpriced)}, so the cost of a run is not known; write {FORM}",
    )
    _require(
        worker.drain_seconds + 5 <= worker.termination_grace_seconds,
        f"LOOPWORKER_WORKER__DRAIN_SECONDS ({worker.drain_seconds:g}) + 5 s must fit into"
        f" WORKER__TERMINATION_GRACE_SECONDS ({worker.termination_grace_seconds:g}),"
        " or the platform kills the worker while it drains",
    )


def unused_guards(settings: Settings, tools: Iterable[tuple[str, str]]) -> list[str]:
    """Exceptions of GUARDS that no tool is called by. `tools` are names and dependencies."""
    known = {name for tool in tools for name in tool}
    return [
        f"LOOPWORKER_GUARDS__{name.upper()}: no tool and no dependency is called {name!r};"
        f" there are {', '.join(sorted(known)) or 'none'}"
        for name in settings.guards
        if name not in known
    ]


def _check_guard(guard: GuardSettings) -> None:
    _require(
        guard.deadline_seconds >= guard.timeout_seconds,
        f"LOOPWORKER_GUARD__DEADLINE_SECONDS ({guard.deadline_seconds:g}) is shorter than"
        f" LOOPWORKER_GUARD__TIMEOUT_SECONDS ({guard.timeout_seconds:g}); no attempt could finish",
    )
    _require(
        guard.fail_max >= guard.attempts + 2,
        f"LOOPWORKER_GUARD__FAIL_MAX ({guard.fail_max}) must be at least GUARD__ATTEMPTS + 2"
        f" ({guard.attempts + 2}), or one unlucky call opens the breaker alone",
    )
    _require(
        guard.window_calls_min <= guard.window_calls,
        "LOOPWORKER_GUARD__WINDOW_CALLS_MIN is larger than GUARD__WINDOW_CALLS:"
        " the ratios would never count",
    )
    _require(
        guard.open_seconds <= guard.open_seconds_max,
        "LOOPWORKER_GUARD__OPEN_SECONDS is larger than GUARD__OPEN_SECONDS_MAX",
    )


def _check_steps(settings: Settings) -> None:
    most = steps_most(settings.max_steps, settings.steps)
    _require(
        most <= settings.loop.steps_ceiling,
        f"LOOPWORKER_MAX_STEPS ({settings.max_steps}) may give {most} steps, which is above"
        f" LOOP__STEPS_CEILING ({settings.loop.steps_ceiling})",
    )
    for kind in ("exploration", "length", "lookup", "several"):
        least, highest = (getattr(settings.steps, f"{kind}_{end}") for end in ("min", "max"))
        _require(
            least <= highest,
            f"LOOPWORKER_STEPS__{kind.upper()}_MIN ({least}) is above"
            f" STEPS__{kind.upper()}_MAX ({highest})",
        )


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise ConfigError(message)
