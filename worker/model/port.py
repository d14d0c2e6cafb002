"""What the runner needs from a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from worker.core.messages import Message, Reply
from worker.core.staying import Stay

Validate = Callable[[Any], list[str]]


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool as the model sees it, and as its arguments are judged.

    `wire_name` matches ^[a-zA-Z0-9_-]{1,64}$. `validate` holds arguments against the exact
    `parameters` that were sent and returns every violation as a sentence that names the field.
    """

    name: str
    wire_name: str
    description: str
    parameters: dict[str, Any]
    validate: Validate


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One logical request: the whole conversation and the tools on offer.

    `allow_calls=False` is the closing turn: tools stay, tool_choice is `none` (decisions.md 7).
    `withheld` are tools that are not on offer for now: a call of one is read like any other, and
    the caller answers it. `seconds_left` is the time until the task's deadline, None when it has
    none. `stay` is the fallback that the run was moved to. `run_id` scopes nothing but telemetry.
    """

    messages: Sequence[Message]
    tools: Sequence[OfferedTool] = ()
    allow_calls: bool = True
    withheld: Sequence[OfferedTool] = ()
    seconds_left: float | None = None
    run_id: str = ""
    stay: Stay | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


class Model(Protocol):
    """A chat model behind its guard."""

    name: str

    async def reply(self, request: ModelRequest) -> Reply:
        """Ask for one reply, with all retries inside.

        Raises ModelError (with the ending it leads to) when no usable reply could be had.
        Cancelled: the request is dropped, nothing is retried.
        """
        ...

    async def close(self) -> None:
        """Close connections. Idempotent."""
        ...
