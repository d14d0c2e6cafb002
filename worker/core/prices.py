"""What model calls cost: a price list, and which entry of it a reply is paid by.

An entry is `MODEL=PROMPT/COMPLETION` or `MODEL=PROMPT/COMPLETION/CACHED`, money per million tokens in
any one currency. `MODEL` is a name, or the beginning of one and a `*`; `*` alone is every model.
`MODEL=told` takes what the endpoint itself says that a reply has cost. For a reply counts, in this
order: the name that the endpoint told, written out; the longest beginning of it; the same two of
the name that was asked for; `*`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from worker.core.messages import COST_DIGITS, Usage

MILLION = 1_000_000
TOLD = "told"
FORM = "MODEL=PROMPT/COMPLETION[/CACHED] per million tokens, or MODEL=told"


@dataclass(frozen=True, slots=True)
class Price:
    """Money per million tokens; cached ones are part of the prompt. `is_told`: ask the endpoint."""

    prompt: float = 0.0
    completion: float = 0.0
    cached: float | None = None  # None: as the rest of the prompt
    is_told: bool = False

    def cost_of(self, usage: Usage) -> float | None:
        """What a reply costs; None where the endpoint was to tell and did not."""
        if self.is_told:
            return usage.cost
        cached = self.prompt if self.cached is None else self.cached
        fresh = max(0, usage.prompt_tokens - usage.cached_tokens)
        paid = fresh * self.prompt + usage.cached_tokens * cached
        return round((paid + usage.completion_tokens * self.completion) / MILLION, COST_DIGITS)


class PriceList:
    """Prices by the name of the model. An empty list leaves costs as the endpoint tells them."""

    def __init__(self, entries: Iterable[str] = ()) -> None:
        self._exact: dict[str, Price] = {}
        self._beginnings: dict[str, Price] = {}
        for entry in entries:
            name, price = read_entry(entry)
            named = self._beginnings if name.endswith("*") else self._exact
            if name.removesuffix("*") in named:
                raise ValueError(f"{name!r} has two prices")
            named[name.removesuffix("*")] = price

    def __repr__(self) -> str:
        return f"PriceList({len(self._exact) + len(self._beginnings)} entries)"

    def __bool__(self) -> bool:
        return bool(self._exact or self._beginnings)

    def price_of(self, model: str, *, requested: str = "") -> Price | None:
        """The price of a reply: by the name that the endpoint told, else by the one asked for."""
        for name in (model.lower(), requested.lower()):
            found = self._exact.get(name) if name else None
            found = found or self._by_beginning(name)
            if found is not None:
                return found
        return self._beginnings.get("")

    def cost_of(self, usage: Usage, *, model: str, requested: str = "") -> float | None:
        """What a reply costs; None when nobody knows. Without a price the endpoint is believed."""
        price = self.price_of(model, requested=requested)
        return usage.cost if price is None else price.cost_of(usage)

    def _by_beginning(self, name: str) -> Price | None:
        fits = [each for each in self._beginnings if each and name.startswith(each)]
        return self._beginnings[max(fits, key=len)] if fits else None


def read_entry(entry: str) -> tuple[str, Price]:
    """Read one entry of a price list; names are compared in lower case. Raises ValueError."""
    name, mark, text = entry.rpartition("=")
    name, text = name.strip().lower(), text.strip()
    if not mark or not name or "*" in name[:-1]:
        raise ValueError(f"{entry[:80]!r} is no price; write {FORM}")
    if text.lower() == TOLD:
        return name, Price(is_told=True)
    parts = [_money(part, entry) for part in text.split("/")]
    if len(parts) not in (2, 3):
        raise ValueError(f"{entry[:80]!r} is no price; write {FORM}")
    return name, Price(parts[0], parts[1], parts[2] if len(parts) == 3 else None)


def _money(text: str, entry: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < 1e9:
        raise ValueError(f"{entry[:80]!r}: {text[:20]!r} is no amount of money; write {FORM}")
    return value
