"""What happened in a world, in order: the only thing that the checkers look at."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from worker.core.events import Event, ModelReplied
from worker.core.task import Result

F = TypeVar("F", bound="Fact")


@dataclass(slots=True, eq=False)
class Fact:
    """One thing that happened. `at` is simulated seconds, `by` the process that did it."""

    at: float = field(init=False, default=0.0)
    by: str = field(init=False, default="")


@dataclass(slots=True, eq=False)
class Accepted(Fact):
    """The queue has a task, and its caller knows it."""

    task: str


@dataclass(slots=True, eq=False)
class Claimed(Fact):
    """The queue handed a task to somebody."""

    task: str
    token: str
    deliveries: int
    lapses: int


@dataclass(slots=True, eq=False)
class Settled(Fact):
    """The queue was told what to do with a delivery: ack, nack or dead_letter."""

    task: str
    token: str
    action: str
    counted: bool
    reason: str
    by_drain: bool


@dataclass(slots=True, eq=False)
class Published(Fact):
    """A result was put on the queue that its task names."""

    queue: str
    body: bytes


@dataclass(slots=True, eq=False)
class Opened(Fact):
    """The journal made somebody the owner of a run."""

    run: str
    epoch: int
    session: str | None
    known: int  # events of it that were there already


@dataclass(slots=True, eq=False)
class Wrote(Fact):
    """Facts of a run came into the journal."""

    run: str
    epoch: int
    events: tuple[Event, ...]
    sizes: tuple[int, ...]


@dataclass(slots=True, eq=False)
class LetGo(Fact):
    """An owner gave its run back unfinished."""

    run: str
    epoch: int


@dataclass(slots=True, eq=False)
class Ended(Fact):
    """A task got its result. `epoch` None: of a task that was not run for it."""

    run: str
    epoch: int | None
    result: Result
    session: str | None = None


@dataclass(slots=True, eq=False)
class Redriven(Fact):
    """A person wants a dead task to be tried again."""

    run: str


@dataclass(slots=True, eq=False)
class Revived(Fact):
    """The queue put a dead letter back, and counts its deliveries afresh."""

    task: str


@dataclass(slots=True, eq=False)
class ModelAsked(Fact):
    """The model was sent a conversation; `unpaired` says what was wrong with it."""

    run: str
    messages: int
    unpaired: str | None


@dataclass(slots=True, eq=False)
class ToolRan(Fact):
    """A tool began to work for a call. `purpose`: call or verify."""

    tool: str
    effect: str
    run: str
    call: str
    key: str
    purpose: str = "call"


@dataclass(slots=True, eq=False)
class Effected(Fact):
    """What a tool is for has happened in the outside world."""

    tool: str
    effect: str
    run: str
    call: str
    key: str


@dataclass(slots=True, eq=False)
class Told(Fact):
    """A signal of a worker."""

    signal: Any


@dataclass(slots=True, eq=False)
class Mishap(Fact):
    """Something that went wrong on purpose."""

    kind: str
    detail: str = ""


class Facts:
    """All of it. `digest` tells two histories apart."""

    def __init__(self) -> None:
        self.all: list[Fact] = []

    def __repr__(self) -> str:
        return f"Facts({len(self.all)})"

    @property
    def last_at(self) -> float:
        """When the last of them was, in simulated seconds."""
        return self.all[-1].at if self.all else 0.0

    def of(self, kind: type[F]) -> Iterator[F]:
        """Those of one kind, in order."""
        return (fact for fact in self.all if type(fact) is kind)

    def lines(self) -> Iterator[str]:
        """One line for each, for people."""
        for fact in self.all:
            shown = ", ".join(
                f"{each.name}={_short(getattr(fact, each.name))}"
                for each in fields(fact)
                if each.name not in ("at", "by")
            )
            yield f"{fact.at:10.3f}  {fact.by:<14} {type(fact).__name__}({shown})"

    def digest(self) -> str:
        """The same for the same history, and for no other."""
        total = hashlib.sha256()
        for line in self.lines():
            total.update(line.encode())
        return total.hexdigest()


def _short(value: Any) -> str:
    if isinstance(value, tuple):
        return "[" + " ".join(map(_short, value)) + "]"
    if isinstance(value, Result):
        return f"{value.status}:{value.steps}:{value.answer[:40]!r}"
    if isinstance(value, ModelReplied):
        return f"ModelReplied({' '.join(call.id for call in value.reply.calls)})"
    if isinstance(value, str | int | float | bytes | None):
        return repr(value)[:160]
    if isinstance(value, BaseException):
        return repr(value)[:160]
    name = type(value).__name__
    ids = [getattr(value, each, "") for each in ("call_id", "task_id", "outcome", "error")]
    return f"{name}({' '.join(_short(each) if not isinstance(each, str) else each for each in ids if each)})"
