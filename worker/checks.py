"""What settings have to hold, alone and against each other."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable

from worker.core.errors import ConfigError
from worker.core.prices import FORM
from worker.fallbacksettings import check_url, http_parts
from worker.guardsettings import GuardSettings
from worker.loopsettings import steps_most
from worker.mcpsettings import McpServerSettings, dependency_of, setting_of
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
        parts = check_url(settings.model_url, what="LOOPWORKER_MODEL_URL")
        _require(
            not (settings.api_key and (parts.username or parts.password)),
            "LOOPWORKER_MODEL_URL: has an account in it, and LOOPWORKER_API_KEY (or OPENAI_API_KEY)"
            " is set; a server is told one of them: take the other away",
        )
    settings.stand_ins()
    _check_shards(settings)
    _check_guard(settings.guard)
    _check_steps(settings)
    for name, server in settings.mcp.items():
        _check_mcp(setting_of(name), server)
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
    known |= {dependency_of(server) for server in settings.mcp}
    return [
        f"LOOPWORKER_GUARDS__{name.upper()}: no tool and no dependency is called {name!r};"
        f" there are {', '.join(sorted(known)) or 'none'}"
        for name in settings.guards
        if name not in known and name.partition(".")[0] not in settings.mcp
    ]


def _check_shards(settings: Settings) -> None:
    per_shard = "{shard}" in settings.queue_url
    _require(
        not per_shard or settings.store_url is not None,
        "LOOPWORKER_STORE_URL: must be set, for LOOPWORKER_QUEUE_URL names a server for each shard"
        " and all workers need one store",
    )
    _require(
        "{shard}" not in (settings.store_url or ""),
        "LOOPWORKER_STORE_URL: there is one store for all shards; leave {shard} out",
    )
    _require(
        not per_shard or settings.queue_shards > 1 or bool(settings.queue_shard_set),
        "LOOPWORKER_QUEUE_URL: {shard} stands for the number of a shard, and LOOPWORKER_QUEUE_SHARDS"
        " is 1; set it to the number of servers",
    )


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


def _check_mcp(name: str, server: McpServerSettings) -> None:
    _require(
        (server.command is None) != (server.url is None),
        f"{name}: needs {name}__COMMAND (a program that speaks MCP) or {name}__URL (a streamable"
        " HTTP server), and not both",
    )
    for field in ("args", "cwd", "env"):
        misplaced = server.command is None and getattr(server, field)
        _require(not misplaced, f"{name}__{field.upper()}: is for a COMMAND, and this is a URL")
    if server.url is not None:
        _check_mcp_url(f"{name}__URL", server.url)
    _require(
        server.command is None or not server.headers,
        f"{name}__HEADERS: is for a URL, and this is a COMMAND; use {name}__ENV",
    )
    texts = [(f"ENV__{key}", value.get_secret_value()) for key, value in server.env.items()]
    texts += [("ARGS", word) for word in (*server.args, server.command or "", server.cwd or "")]
    for field, text in texts:
        _require("\x00" not in text, f"{name}__{field}: holds a NUL character")
    for key, value in server.headers.items():
        is_name = re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", key) is not None
        _require(is_name, f"{name}__HEADERS: {key[:80]!r} is no name of a header")
        odd = re.search(r"[^\t\x20-\x7e]", value.get_secret_value())
        _require(
            odd is None,
            f"{name}__HEADERS__{key[:80]}: a header holds printable ASCII only, not"
            f" {odd[0] if odd else ''!a}",
        )
    _require(
        server.restart_seconds <= server.restart_seconds_max,
        f"{name}__RESTART_SECONDS is larger than RESTART_SECONDS_MAX",
    )


def _check_mcp_url(name: str, url: str) -> None:
    """Operations may name private addresses, unlike a model; but none where no server can be."""
    parts = http_parts(url)
    if parts is None or parts.hostname is None:
        raise ConfigError(f"{name}: must be an http(s) URL such as https://example.com/mcp")
    key = f"put the key into {name.removesuffix('URL')}HEADERS__AUTHORIZATION, not into the URL"
    _require(not parts.username and not parts.password, f"{name}: {key}")
    _require(not parts.fragment, f"{name}: a fragment (#…) is not sent; leave it out")
    try:
        ip = ipaddress.ip_address(parts.hostname.partition("%")[0])
    except ValueError:
        return
    nowhere = ip.is_link_local or ip.is_multicast or ip.is_unspecified
    _require(not nowhere, f"{name}: {ip} is for metadata, groups or nobody; no server is there")


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
