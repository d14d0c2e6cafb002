"""What is outside the workers: a model that answers as it likes, and tools that do things."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from tests.simulation.facts import Effected, ModelAsked, ToolRan
from tests.simulation.pairing import what_is_unpaired
from tests.simulation.plan import Chance, Faults
from worker.core.errors import AttemptFailed, AttemptTimeout, ModelError, Rejected, ToolError
from worker.core.limits import Status
from worker.core.messages import Reply, ToolCall
from worker.guard.guard import Guard
from worker.guard.policy import AttemptInfo, CallPolicy
from worker.model.port import ModelRequest
from worker.model.scripted import answer, calls
from worker.registry import Registry, ToolContext, tool

CANARY = "sk-ant-api03-canarycanarycanarycanary"  # may reach no reason, error or dead letter
STUB = "the stock is not known at the moment"
WORDS = ("amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heath", "islet", "jetty")

# Whoever is asked with a key that he knows does nothing. A tool with `verify` needs that as well: an
# owner that was stopped between asking and doing does it when it goes on, whatever verify has said.
_KEYED = frozenset({"reserve", "pay"})

_POLICY = CallPolicy(
    kind="model",
    target="simulated",
    timeout_seconds=30.0,
    deadline_seconds=120.0,
    attempts=3,
    backoff_seconds=0.5,
    backoff_seconds_max=8.0,
    is_trusted=True,
)


class Site:
    """Where a process meets the outside: its luck, and who notes what it does there."""

    def __init__(
        self,
        chance: Chance,
        faults: Callable[[], Faults],
        note: Callable[[Any], None],
        number: Callable[[], int],
        done: dict[str, str],
        is_dead: Callable[[], bool],
    ) -> None:
        self.chance = chance
        self.faults = faults
        self.note = note
        self.number = number
        self.done = done  # by everybody: effects by their keys
        self._is_dead = is_dead

    def __repr__(self) -> str:
        return f"Site({len(self.done)} effects)"

    def do(self, fact: Effected, subject: str) -> None:
        """Let something happen outside, unless it is keyed and has; the dead do nothing any more."""
        if self._is_dead():
            raise asyncio.CancelledError
        if fact.tool not in _KEYED or fact.key not in self.done:
            self.note(fact)
        self.done[fact.key] = subject


class SimulatedModel:
    """A model behind the guard of its process. Asked again, it says something else."""

    name = "simulated"

    def __init__(self, site: Site, guard: Guard) -> None:
        self._site = site
        self._guard = guard

    def __repr__(self) -> str:
        return f"SimulatedModel({self._guard!r})"

    async def reply(self, request: ModelRequest) -> Reply:
        """See the port."""
        made = 0

        async def attempt(info: AttemptInfo) -> Reply:
            nonlocal made
            made += 1
            return await self._asked(request, info)

        outcome = await self._guard.call(attempt, _POLICY)
        if outcome.error is None:
            assert outcome.value is not None
            return outcome.value
        if isinstance(outcome.error, ModelError):
            raise outcome.error
        timeout = isinstance(outcome.error, AttemptTimeout)
        status = Status.TIMEOUT if timeout else Status.MODEL_UNAVAILABLE
        assert timeout or isinstance(outcome.error, AttemptFailed | Rejected)
        raise ModelError(
            str(outcome.error),
            status=status,
            transient=True,
            attempted=made > 0,
            retry_after_seconds=outcome.retry_after_seconds,
        )

    async def close(self) -> None:
        """See the port."""

    async def _asked(self, request: ModelRequest, info: AttemptInfo) -> Reply:
        site, chance = self._site, self._site.chance
        bodies = [message.body for message in request.messages]
        site.note(ModelAsked(request.run_id, len(bodies), what_is_unpaired(bodies)))
        await asyncio.sleep(min(chance.expovariate(1.0), info.timeout_seconds))
        if chance.happens(site.faults().model_fails):
            await self._fail(chance, info)
        return _said(request, bodies, site)

    async def _fail(self, chance: Chance, info: AttemptInfo) -> None:
        match chance.randrange(8):
            case 0:
                raise ModelError(f"refused: {CANARY}", status=Status.BAD_REQUEST)
            case 1:
                await asyncio.sleep(info.timeout_seconds)
                raise AttemptTimeout("no answer")
            case _:
                raise AttemptFailed(f"connection lost; api_key={CANARY}", kind="connection")


def _said(request: ModelRequest, bodies: Sequence[dict[str, Any]], site: Site) -> Reply:
    chance = site.chance
    if not request.allow_calls or chance.happens(0.45):
        return answer(f"Thus it stands with {chance.choice(WORDS)} and {chance.choice(WORDS)}.")
    if chance.happens(0.02):
        return answer("")
    wanted = [
        ToolCall(f"call-{site.number()}", chance.choice(NAMES), {"subject": chance.choice(WORDS)})
        for _ in range(chance.choice((1, 1, 2, 3)))
    ]
    return calls(*wanted)


async def _work(ctx: ToolContext, name: str, effect: str, subject: str) -> str:
    """Let a tool do its work, or go wrong before or after what it is for."""
    site: Site = ctx.options["site"]
    site.note(ToolRan(name, effect, ctx.task_id, ctx.call_id, ctx.idempotency_key))
    chance, faults = site.chance, site.faults()
    await asyncio.sleep(chance.expovariate(2.0))
    fails, hangs = chance.happens(faults.tool_fails), chance.happens(faults.tool_hangs)
    too_early = chance.happens(0.5)
    if fails and too_early:
        raise _problem(chance)
    site.do(Effected(name, effect, ctx.task_id, ctx.call_id, ctx.idempotency_key), subject)
    if hangs:
        await asyncio.sleep(1000.0)
    await asyncio.sleep(chance.expovariate(2.0))
    if fails:
        raise _problem(chance)
    return f"{name} of {subject}: " + " ".join(chance.choices(WORDS, k=30))


def _problem(chance: Chance) -> Exception:
    if chance.happens(0.3):
        return ToolError(f"there is no such thing; password={CANARY}")
    return AttemptFailed(f"connection reset; password={CANARY}", kind="connection")


@tool(name="look_up", effect="read", dependency="library")
async def look_up(ctx: ToolContext, subject: str) -> str:
    """Look something up."""
    return await _work(ctx, "look_up", "read", subject)


@tool(name="stock", effect="read", stub=STUB, dependency="shop")
async def stock(ctx: ToolContext, subject: str) -> str:
    """Tell what is in stock."""
    return await _work(ctx, "stock", "read", subject)


@tool(name="weather", effect="read", stale_seconds=600, dependency="sky")
async def weather(ctx: ToolContext, subject: str) -> str:
    """Tell the weather somewhere."""
    return await _work(ctx, "weather", "read", subject)


@tool(name="reserve", effect="idempotent", dependency="shop")
async def reserve(ctx: ToolContext, subject: str) -> str:
    """Reserve something; the same key reserves once."""
    return await _work(ctx, "reserve", "idempotent", subject)


@tool(name="send_letter", effect="write", dependency="post")
async def send_letter(ctx: ToolContext, subject: str) -> str:
    """Send a letter, which nobody can take back or ask after."""
    return await _work(ctx, "send_letter", "write", subject)


async def _is_paid(ctx: ToolContext, subject: str) -> str | None:
    site: Site = ctx.options["site"]
    key = ctx.idempotency_key
    site.note(ToolRan("pay", "write", ctx.task_id, ctx.call_id, key, "verify"))
    await asyncio.sleep(site.chance.expovariate(2.0))
    return f"paid for {subject}" if key in site.done else None


@tool(name="pay", effect="write", verify=_is_paid, dependency="bank")
async def pay(ctx: ToolContext, subject: str) -> str:
    """Pay for something, once."""
    return await _work(ctx, "pay", "write", subject)


TOOLS = (look_up, stock, weather, reserve, send_letter, pay)
NAMES = tuple(each.name for each in TOOLS)
REGISTRY = Registry(TOOLS)
