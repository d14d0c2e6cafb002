"""What the history of a task says, in the same words for every engine.

An engine that writes the lines itself asks for them with %s in place of each value.
"""

from __future__ import annotations

HISTORY_MAX = 20  # lines kept; the oldest leave first


def delivered_too_often(deliveries: int | str) -> str:
    """Why `claim` gave a task up."""
    return f"delivered {deliveries} times without an end (limit {deliveries})"


def is_given_up(reason: str) -> bool:
    """Whether a task is dead because a claim gave it up, and not by the word of its owner."""
    return reason.startswith("delivered ") and " times without an end " in reason


def lease_ran_out(*, delivery: int | str, owner: str) -> str:
    """The history line of an owner that went silent."""
    return f"delivery {delivery}: {ran_out(owner)}"


def ran_out(owner: str) -> str:
    """What is said of an owner that went silent."""
    return f"the lease of {owner} ran out"


def handed_back(*, delivery: int | str, reason: str) -> str:
    """The history line of a nack."""
    return f"delivery {delivery}: {reason}"


def note_of(line: str) -> str:
    """What a history line says, without the number of the delivery."""
    head, _, said = line.partition(": ")
    return said if head.startswith("delivery ") else line


def readable(text: str) -> str:
    """The text as it can be stored anywhere: lone surrogates become visible escapes."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()
