"""The MCP servers whose tools a worker offers, as operations name them."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, SecretStr

from worker.section import Names, Seconds, Section

_SECRET_NAME = re.compile(r"key|token|secret|passw|pwd|auth|credential|cookie|dsn|sig", re.I)
_KEY_LIKE = re.compile(r"(?=[^0-9]*[0-9])(?=[^A-Za-z]*[A-Za-z])[A-Za-z0-9+/_=.-]{20,}")
# A server's name is the beginning of its tools' names, and a part of variables.
ServerName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,31}$")]


def dependency_of(server: str) -> str:
    """The name of the server's guard: settable as LOOPWORKER_GUARDS__MCP_TIME__…"""
    return f"mcp_{server}"


def setting_of(server: str) -> str:
    """How the settings of a server begin."""
    return f"LOOPWORKER_MCP__{server.upper()}"


def _json(text: str) -> Any:
    """Read JSON of the environment; the message repeats nothing of it, for it may be secret."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"is no JSON: {error}") from None


def _words(value: Any) -> Any:
    """Accept a list, a JSON list, or words as a shell would split them."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        return _json(value)
    return shlex.split(value)


def _pairs(value: Any) -> Any:
    """Accept a table, a JSON object, or `name=value` separated by commas."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("{"):
        return _json(value)
    pairs = [pair.partition("=") for pair in value.split(",") if pair.strip()]
    if not all(sign for _, sign, _ in pairs):
        # Without the value: it may be a secret.
        raise ValueError("must be name=value, separated by commas, or a JSON object")
    return {name.strip(): text.strip() for name, _, text in pairs}


Words = Annotated[tuple[str, ...], BeforeValidator(_words)]
Texts = Annotated[dict[str, str], BeforeValidator(_pairs)]
Secrets = Annotated[dict[str, SecretStr], BeforeValidator(_pairs)]
Effects = Annotated[
    dict[str, Literal["read", "idempotent", "write"]],
    BeforeValidator(_pairs),
]


class McpServerSettings(Section):
    """One server: `LOOPWORKER_MCP__TIME__COMMAND=…` or `…__URL=…`, or a table `[mcp.time]`.

    Its tools are called `time.NAME`, its guard is `mcp_time`. Names of tools here are the server's
    own; `*` stands for anything in ALLOW, APPROVAL, DENY and EFFECTS.
    """

    allow: Names = Field((), description="Tools that are offered; none named: all of them.")
    approval: Names = Field((), description="Tools of which a person has to allow each call.")
    args: Words = Field((), description="Arguments of COMMAND.")
    attempts: int | None = Field(
        None, ge=1, le=20, description="Attempts of one call; GUARD__ATTEMPTS unless set."
    )
    command: str | None = Field(
        None, min_length=1, description="Program that speaks MCP on its standard input and output."
    )
    connect_seconds: Seconds = Field(
        30.0, gt=0, le=600, description="Longest time to start, connect and list the tools."
    )
    cwd: str | None = Field(None, min_length=1, description="Working folder of COMMAND.")
    deny: Names = Field((), description="Tools that are left out; wins over ALLOW.")
    effects: Effects = Field(
        default_factory=dict,
        description="What a tool does: NAME=read, idempotent or write; a tool not named writes.",
    )
    env: Secrets = Field(
        default_factory=dict,
        description="Environment of COMMAND, beside PATH, HOME and the like; ENV__NAME for one.",
    )
    headers: Secrets = Field(
        default_factory=dict, description="Headers of each request to URL; HEADERS__NAME for one."
    )
    limit: int | None = Field(
        None, ge=1, le=10_000, description="Calls in flight; GUARD__LIMIT unless set."
    )
    message_bytes_max: int = Field(
        4_194_304, ge=1024, le=268_435_456, description="Longest message that is read from it."
    )
    restart_seconds: Seconds = Field(
        0.5, gt=0, le=600, description="First wait before it is connected to again; doubles."
    )
    restart_seconds_max: Seconds = Field(60.0, gt=0, le=86400, description="Longest such wait.")
    sequential: bool = Field(False, description="Calls of one run go one after another.")
    stale_seconds: Seconds | None = Field(
        None, gt=0, le=31_536_000, description="How old a stand-in may be, for tools that read."
    )
    stub: str | None = Field(
        None, max_length=1000, description="What stands in for a result when the server is away."
    )
    stubs: Texts = Field(default_factory=dict, description="The same for single tools.")
    timeout_seconds: Seconds | None = Field(
        None, gt=0, le=3600, description="One attempt; GUARD__TIMEOUT_SECONDS unless set."
    )
    tools_max: int = Field(
        128, ge=1, le=2000, description="Tools taken from it; what it lists beyond is left out."
    )
    trust_hints: bool = Field(
        False, description="Believe what it says about its tools (readOnlyHint, idempotentHint)."
    )
    url: str | None = Field(None, min_length=1, description="Address of a streamable HTTP server.")
    wait_seconds: Seconds = Field(
        5.0, ge=0, le=600, description="How long the start of a worker waits for its tools."
    )

    def secrets(self) -> Iterator[str]:
        """What must never be told: the headers, and what of the environment is a key or like one.

        Not all of the environment: `production` would blacken ordinary text.
        """
        for value in self.headers.values():
            text = value.get_secret_value()
            yield text
            yield from text.split()[1:]  # after the scheme
        for name, value in self.env.items():
            text = value.get_secret_value()
            if _SECRET_NAME.search(name) or _KEY_LIKE.fullmatch(text):
                yield text
