"""How a Redis or Valkey server has to be set up to be entrusted with tasks, from what it says itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

VERSION_MIN = (7, 0)


def unfit(said: Mapping[str, Any]) -> str:
    """Why a server cannot be entrusted with tasks, from its INFO; empty when it can."""
    policy = said.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        return (
            f"maxmemory-policy is {policy}, so the server may throw tasks away;"
            " set maxmemory-policy noeviction"
        )
    version = str(said.get("redis_version", "7.0"))
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if numbers < VERSION_MIN:
        return f"the server is version {version}; Redis 7.0, Valkey 7.2 or a later one is needed"
    return ""


def frail(said: Mapping[str, Any], config: Mapping[str, str]) -> str:
    """What a crash of the server would cost, from its INFO; empty when that is little.

    `config` may be empty: not everybody is told it.
    """
    advice = "set appendonly yes, and appendfsync always where nothing may be lost"
    if str(said.get("aof_enabled", "1")) == "1":
        if config.get("appendfsync") == "no":
            return (
                "appendfsync is no: a crash of the machine costs some 30 s; set everysec or always"
            )
        return ""
    if config.get("save") == "":
        return f"nothing is written to its disk: when the server ends, all is lost; {advice}"
    return f"its disk has snapshots at best: a crash costs all since the last one; {advice}"
