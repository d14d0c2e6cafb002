"""The replay command: each step of a recorded run, and what the code of now makes of it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from worker.cli.exits import ANSWERED, NOT_ANSWERED, CommandFailed
from worker.cli.output import json_text, one_line
from worker.core.errors import TaskInvalid, UnknownEvent

if TYPE_CHECKING:
    from worker.core.effects import Effect
    from worker.core.redeciding import Redecision
    from worker.core.task import Result
    from worker.settings import Settings
    from worker.store.port import RunView

REPLAY_EPILOG = """\
Reads the journal of the run and decides each step again, with the code and the settings of now. No
model is asked, no tool is called, nothing is written to the run. Arguments, results and answers are
shown. What came from outside stays as it was: replies, results, decisions of people and rules, which
tools there were, how many steps the run might take. Decided again is what the loop makes of it: to
ask, call, wait, warn or end, by the limits and budgets of LOOP__…, and what the answer may say.

✓ decided the same · ✗ decided otherwise, and how (the rest is as it was recorded) · a dot: not decided

exit codes: 0 every decision is the same · 3 one is not, or there is no such run, or it cannot be read

examples:
  loopworker replay t-1
  LOOPWORKER_LOOP__TOKENS_MAX=2000 loopworker replay t-1     where would that budget have ended it?
  loopworker replay t-1 --json > journal.json                the whole journal
"""
_SHOWN = 160  # characters of a text within a line
_FROM_OUTSIDE = ("cancelled", "error", "rejected")  # a queue gave up, somebody called the run off
# What another hand has written into a journal may be anything.
_UNREADABLE = (
    AssertionError,
    AttributeError,
    KeyError,
    TypeError,
    ValueError,
    OverflowError,
    TaskInvalid,
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a run comes to now, as a sentence, and whether that is what is recorded."""

    text: str
    is_same: bool


def configure_replay(parser: argparse.ArgumentParser) -> None:
    """Say what `replay` takes."""
    parser.description = "Show each step of a run, and decide it again without calling out."
    parser.epilog = REPLAY_EPILOG
    parser.add_argument("task", metavar="ID", help="the id of the task")
    parser.add_argument("--json", action="store_true", help="print the journal as JSON")


def replay(options: argparse.Namespace) -> int:
    """Show a run again."""
    from worker.cli.places import with_desk

    return with_desk(lambda place: _replay(place, options))


async def _replay(place: Any, options: argparse.Namespace) -> int:
    try:
        view: RunView | None = await place.journal.view(options.task)
        if view is None or not view.events:
            raise CommandFailed(await _why_nothing(place, options.task), code=NOT_ANSWERED)
        lines, verdict = _decided_again(view, place.settings, as_json=options.json)
    except UnknownEvent as error:
        text = f"a newer version wrote this journal: {error}"
        raise CommandFailed(text, code=NOT_ANSWERED) from None
    except _UNREADABLE as error:
        what = _cut(f"{type(error).__name__}: {error}")
        text = f"the journal of {options.task!r} is damaged, and cannot be decided again ({what})"
        raise CommandFailed(text, code=NOT_ANSWERED) from None
    for line in lines:
        print(line)
    return ANSWERED if verdict.is_same else NOT_ANSWERED


async def _why_nothing(place: Any, task_id: str) -> str:
    seen = await place.desk.look(task_id)
    why = "is not known" if seen is None else "has not begun"
    if seen is not None and seen.result is not None:
        why = f"ended before it began ({seen.result.status})"
    return f"task {task_id!r} {why}: there is no journal to replay"


def _decided_again(
    view: RunView, settings: Settings, *, as_json: bool
) -> tuple[list[str], Verdict]:
    """What is to be printed of a run, and what it comes to now."""
    from worker.core.redeciding import priced, redecide
    from worker.store.codec import revived

    ended_at = view.result.ended_at if view.result else view.updated_at
    events = priced(revived(view.events), settings.price_list())
    told = redecide(settings.limits(), events, now=ended_at)
    verdict = verdict_of(told, view.result, settings)
    if as_json:
        return [json_text(_as_data(view, told, verdict))], verdict
    return [one_line(line) for line in (*_lines(view, told), f"now: {verdict.text}")], verdict


def verdict_of(told: Redecision, result: Result | None, settings: Settings) -> Verdict:
    """Hold what would happen now against what is recorded."""
    from worker.core.effects import Finish
    from worker.core.ending import result_of

    at = told.difference
    if at is not None:
        decision = told.facts[at].decision
        return Verdict(f"decided otherwise at {at}: {_deed(decision)}", is_same=False)
    if result is None:
        return Verdict(f"the same so far; next: {_deed(told.last)}", is_same=True)
    if not isinstance(told.last, Finish):
        if result.status in _FROM_OUTSIDE:
            return Verdict(f"the same; ended from outside as {result.status}", is_same=True)
        return Verdict(f"go on: {_deed(told.last)}, recorded is {result.status}", is_same=False)
    ends = f"{_deed(told.last)}, recorded is {result.status}"
    if str(told.last.status) != str(result.status):
        return Verdict(ends, is_same=False)
    words = _words(told, settings)
    again = result_of(told.loop, told.last, ended_at=result.ended_at or 0.0, words=words)
    if again.answer != result.answer:
        return Verdict(f"the same end with another answer: {_cut(again.answer)}", is_same=False)
    return Verdict(f"the same to the end: {result.status}", is_same=True)


def _words(told: Redecision, settings: Settings) -> Any:
    """What the tools of the run are about, as far as they are here; the honesty gate asks."""
    from worker.core.fitting import words_of
    from worker.discovery import load_registry

    registry = load_registry(settings.tools)
    names = told.loop.started.tools if told.loop.started else ()
    return words_of(registry.offered(tuple(name for name in names if name in registry)))


def _lines(view: RunView, told: Redecision) -> Iterator[str]:
    yield f"{view.id}: {view.state}, {len(told.facts)} facts, {told.loop.replies} replies"
    begun = told.facts[0].event.at
    for at, (fact, written) in enumerate(zip(told.facts, view.events, strict=True)):
        mark = "✗" if fact.differs else "·" if fact.decision is None else "✓"
        head = f"{at:>4}  {fact.event.at - begun:+9.3f}s  {mark} {written['kind']:<14}"
        yield f"{head} {_told(written)}"
        if fact.differs:
            yield f"{'':>22}now: {_deed(fact.decision)}"


def _told(written: dict[str, Any]) -> str:
    """One fact in a line: what it says, without what every fact has."""
    data = {name: value for name, value in _shown(written).items() if name != "at"}
    match written["kind"]:
        case "started":
            reason = data.get("max_steps_reason", "")
            return f"{_cut(data['task']['input'])} · at most {data['max_steps']} steps ({reason})"
        case "model_replied":
            reply = data["reply"]
            calls = [f"{call['name']} {_json(call['arguments'])}" for call in reply["calls"]]
            return f"{reply['kind']}: {_cut('; '.join(calls) or reply['text'])}"
        case "tool_returned":
            seen = data["observation"]
            return (
                f"{data['call_id']}: {seen['source']} {seen['status_code']} {_cut(seen['content'])}"
            )
    return _cut(_json(data))


def _shown(written: dict[str, Any]) -> dict[str, Any]:
    """The data of a fact without the cookies of a group."""
    data: dict[str, Any] = written["data"]
    return {**data, "kept": "…"} if written["kind"] == "state_kept" else data


def _deed(decision: Effect | None) -> str:
    """Say what a decision is."""
    from worker.core import effects

    match decision:
        case effects.CallModel():
            closing = "" if decision.allow_calls else ", the closing turn"
            return f"ask the model (step {decision.step}{closing})"
        case effects.CallTools():
            calls = [call.name for call in decision.calls]
            calls += [f"not {call.name}" for call, _ in decision.answered]
            return f"call {', '.join(calls) or 'what waits'}"
        case effects.Park():
            return f"park: {decision.reason}"
        case effects.Finish():
            return f"end as {decision.status}" + (f" ({decision.error})" if decision.error else "")
        case effects.AddNote():
            return f"tell the model: {decision.kind}"
        case effects.ChangeSteps():
            return f"allow {decision.max_steps} steps ({decision.reason})"
        case effects.CutHistory():
            return f"send the newest {decision.turns} turns only"
    return "nothing"


def _as_data(view: RunView, told: Redecision, verdict: Verdict) -> dict[str, Any]:
    from worker.core.wireformat import result_to_wire

    return {
        "id": view.id,
        "state": view.state,
        "events": [
            {
                **written,
                "data": _shown(written),
                "decision": None if fact.decision is None else _deed(fact.decision),
                "differs": fact.differs,
            }
            for fact, written in zip(told.facts, view.events, strict=True)
        ],
        "result": None if view.result is None else result_to_wire(view.result),
        "verdict": verdict.text,
        "same": verdict.is_same,
    }


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text)} characters)"
