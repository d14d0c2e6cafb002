"""A chain of models: when one fails for a cause that another is declared for, that one is asked.

    first ──error, rate_limit, quota──▶ second ──▶ …
      └────context_overflow──▶ the next one that takes long conversations

Each model has its own guard, quirks and prices; an open breaker moves the call on at once. All of
them share one deadline: a model leaves the next one half of the time left, or one full attempt.
A reply that was declined for a declared cause still counts in the usage. When nobody replies, the
error is that of the first failure which may pass, else of the first: whoever settles the task then
tries again if any model of the chain may be back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from worker.core.causes import CAUSES, CONTEXT_OVERFLOW, ERROR, cause_of
from worker.core.errors import ModelError
from worker.core.limits import Status
from worker.core.messages import Reply, ReplyKind, Usage
from worker.core.settlement import TRANSIENT
from worker.model.client import ChatModel, Endpoint
from worker.model.port import ModelRequest
from worker.telemetry.signals import FallbackUsed
from worker.telemetry.tell import Telemetry

_DECLINED = {
    ReplyKind.CONTENT_FILTERED: cause_of(Status.CONTENT_FILTERED),
    ReplyKind.REFUSED: cause_of(Status.REFUSED),
}
# The first model: a run that was moved away for a while comes back to it when the other fails.
FIRST = frozenset(CAUSES) - {CONTEXT_OVERFLOW}
AND_THEN = "; then "  # between what was wrong with one model and with the next


@dataclass(frozen=True, slots=True)
class Link:
    """One model of the chain; `causes` are those for which it takes over, `name` is for signals."""

    name: str
    model: ChatModel
    causes: frozenset[str]

    def takes(self, cause: str, *, is_long: bool) -> bool:
        """Tell whether a call that failed for this cause may move here."""
        return cause in self.causes and (not is_long or CONTEXT_OVERFLOW in self.causes)


class ModelChain:
    """The model port over several endpoints, in their order. Owns them."""

    def __init__(
        self,
        links: Sequence[Link],
        *,
        telemetry: Telemetry,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.links = tuple(links)
        self.name = links[0].model.name
        self._telemetry = telemetry
        self._clock = clock

    def __repr__(self) -> str:
        return f"ModelChain({', '.join(repr(link.model) for link in self.links)})"

    @property
    def endpoint(self) -> Endpoint:
        """Where the first model is."""
        return self.links[0].model.endpoint

    async def reply(self, request: ModelRequest) -> Reply:
        """Ask the first model, then those that take over; see `port.Model.reply`."""
        return await _Asking(self, request).reply()

    async def close(self) -> None:
        """Close the connections of all. Idempotent."""
        for link in self.links:
            await link.model.close()


class _Asking:
    """One logical request on its way along the chain."""

    def __init__(self, chain: ModelChain, request: ModelRequest) -> None:
        self.chain = chain
        self.request = request
        left = request.seconds_left
        self.ends = None if left is None else chain._clock() + left
        self.waiting = self._ordered()  # who has not been asked yet
        self.is_long = self.waiting[0] is not chain.links[0] and bool(
            request.stay and request.stay.is_for_good
        )
        self.failures: list[tuple[Link, ModelError]] = []
        self.last: Reply | None = None  # kept, should nobody do better
        self.usage = Usage()
        self.attempts = 0

    def _ordered(self) -> list[Link]:
        """The chain, beginning with whom the run was moved to; those before it come last."""
        links, stay = self.chain.links, self.request.stay
        for at, link in enumerate(links):
            if stay is not None and link.model.address == stay.endpoint:
                return [*links[at:], *links[:at]]
        return list(links)

    async def reply(self) -> Reply:
        link = self.waiting.pop(0)
        cause: str | None = None
        while True:
            reply, failed_for = await self._ask(link)
            if cause is not None:
                self._tell(link, cause, reply)
            if reply is not None:
                self.usage = self.usage.plus(reply.usage)
                self.attempts += reply.attempts
                switched = CONTEXT_OVERFLOW if cause is not None and self.is_long else cause
                self.last = replace(reply, switched=switched)
            heir = self._heir(failed_for)
            if heir is None:
                return self._settled()
            link, cause = heir, failed_for

    async def _ask(self, link: Link) -> tuple[Reply | None, str | None]:
        """Ask one model: its reply, and the cause for which somebody else should be asked."""
        share = self._share()
        request = replace(self.request, seconds_left=share)
        try:
            reply = await link.model.reply(request)
        except ModelError as error:
            self.attempts += error.attempted
            failure = self._ours(error)
            self.failures.append((link, failure))
            return None, cause_of(failure.status)
        if link is not self.chain.links[0] and reply.model != link.name:
            # Two servers may tell the same name: the result says which of them replied.
            reply = replace(
                reply, model=f"{link.name} ({reply.model})" if reply.model else link.name
            )
        return reply, _DECLINED.get(reply.kind)

    def _share(self) -> float | None:
        """The time that the next model may take, so that one after it has some as well."""
        if self.ends is None:
            return None
        left = max(0.0, self.ends - self.chain._clock())
        for link in self.waiting:
            would_help = link.takes(ERROR, is_long=self.is_long)
            if would_help and link.model.guard.peek() is None:
                return left - min(left / 2, link.model.options.timeout_seconds)
        return left

    def _ours(self, error: ModelError) -> ModelError:
        """A model that used up its share has timed out; the deadline itself has not passed."""
        if error.status != Status.DEADLINE or self.ends is None:
            return error
        if self.chain._clock() >= self.ends:
            return error
        made = ModelError(
            str(error),
            status=Status.TIMEOUT,
            transient=True,
            text=error.text,
            attempted=error.attempted,
        )
        made.__cause__ = error
        return made

    def _heir(self, cause: str | None) -> Link | None:
        """Take the next model that is declared for the cause out of those that wait."""
        if cause is None:
            return None
        self.is_long = self.is_long or cause == CONTEXT_OVERFLOW
        for link in self.waiting:
            if link.takes(cause, is_long=self.is_long):
                self.waiting.remove(link)
                return link
        return None

    def _tell(self, link: Link, cause: str, reply: Reply | None) -> None:
        outcome = "error" if reply is None else "success"
        self.chain._telemetry.tell(
            FallbackUsed("model", self.chain.links[0].name, link.name, outcome, cause)
        )

    def _settled(self) -> Reply:
        # A reply that declines is an ending too, when those who might do better have failed.
        if self.last is None:
            raise _most_telling(self.failures)
        return replace(self.last, usage=self.usage, attempts=self.attempts)


def _most_telling(failures: Sequence[tuple[Link, ModelError]]) -> ModelError:
    """Make one error of all: see the charter."""
    errors = [error for _, error in failures]
    if len(errors) == 1:
        return errors[0]
    passing = [error for error in errors if error.status in TRANSIENT]
    over = [error for error in errors if error.status == Status.DEADLINE]
    chosen = (over or passing or errors)[0]
    hints = [error.retry_after_seconds for error in passing]
    known = [hint for hint in hints if hint is not None]
    made = ModelError(
        AND_THEN.join(f"{link.name}: {error}" for link, error in failures),
        status=chosen.status,
        transient=chosen.transient,
        text=next((error.text for error in errors if error.text), ""),
        # The first that may be back decides; one that says nothing may be back at once.
        retry_after_seconds=min(known) if known and len(known) == len(hints) else None,
        attempted=any(error.attempted for error in errors),
    )
    made.__cause__ = chosen
    return made
