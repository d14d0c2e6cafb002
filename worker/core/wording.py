"""Words in a tool's own description that keep a model from calling it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

# A model that reads "may be used" does not use it.
_SOFT = re.compile(
    r"可选(?![值项的])|可以考虑|建议|也许|可能|或许|大概|必要时|如有需要|酌情|尽量|"
    r"\b(maybe|might|perhaps|possibly|optionally|may be used|could be used|can be used|"
    r"if you (?:want|like|wish)|if needed|if necessary|feel free|consider using)\b",
    re.IGNORECASE,
)


def soft_word(text: str) -> str | None:
    """The first word that leaves it to the model whether to call; None when the text is plain."""
    found = _SOFT.search(text)
    return found[0] if found else None


def flaw(description: str, properties: Mapping[str, Any]) -> str | None:
    """What is wrong with the way a tool describes itself, in a few words; None when nothing is."""
    if not description.strip():
        return "it has no description"
    soft = soft_word(description)
    if soft:
        return f"its description says {soft!r}"
    for name, schema in properties.items():
        soft = soft_word(described(schema))
        if soft:
            return f"the description of {name} says {soft!r}"
    return None


def described(schema: Any) -> str:
    """The description of one parameter."""
    text = schema.get("description", "") if isinstance(schema, dict) else ""
    return text.strip() if isinstance(text, str) else ""
