"""Read the token counts of a reply, under any of the names that servers give them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from worker.core.messages import Reply, Usage
from worker.core.prices import PriceList
from worker.core.steps import tokens_in

_BYTES_PER_TOKEN = 4  # of JSON; a Chinese character has three bytes and is about one token
_CACHED = ("cached_tokens", "cache_read_input_tokens", "prompt_cache_hit_tokens")


def read_usage(usage: Any) -> Usage:
    """Read one model call's usage. What is missing or makes no sense counts as 0."""
    if not isinstance(usage, dict):
        return Usage(model_calls=1)
    prompt = usage.get("prompt_tokens_details") or usage.get("input_tokens_details")
    completion = usage.get("completion_tokens_details") or usage.get("output_tokens_details")
    return Usage(
        model_calls=1,
        prompt_tokens=_count(usage, "prompt_tokens", "input_tokens"),
        completion_tokens=_count(usage, "completion_tokens", "output_tokens"),
        cached_tokens=_count(prompt, "cached_tokens") or _count(usage, *_CACHED),
        reasoning_tokens=_count(completion, "reasoning_tokens")
        or _count(usage, "reasoning_tokens"),
        cost=_cost(usage.get("cost")),
    )


def metered(reply: Reply, prices: PriceList, *, requested: str, sent_bytes: int) -> Usage:
    """The usage of a reply with its cost.

    Where the endpoint told no tokens they are guessed, so that budgets hold; the guess is not shown
    as if it had been counted.
    """
    usage = counted = reply.usage
    if not (usage.prompt_tokens or usage.completion_tokens):
        prompt, completion = sent_bytes // _BYTES_PER_TOKEN, tokens_in(str(reply.message))
        counted = replace(usage, prompt_tokens=prompt, completion_tokens=completion)
        usage = replace(usage, guessed_tokens=prompt + completion)
    cost = prices.cost_of(counted, model=reply.model, requested=requested)
    return usage if cost == usage.cost else replace(usage, cost=cost)


def _count(part: Any, *names: str) -> int:
    if isinstance(part, dict):
        for name in names:
            value = part.get(name)
            if isinstance(value, int | float) and not isinstance(value, bool):
                return int(value) if 0 <= value < 1e15 else 0
    return 0


def _cost(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) and value >= 0 else None
