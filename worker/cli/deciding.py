"""Commands of the person whom a tool has to be allowed by: approve and deny."""

from __future__ import annotations

import argparse
import json
from typing import Any

from worker.cli.exits import ANSWERED, NOT_ANSWERED, CommandFailed
from worker.cli.output import one_line, print_json, print_table, tell
from worker.cli.remote import NobodyAnswers, Remote, myself, segment, the_worker

EPILOG = """\
Without a TASK: every call that waits. A decision counts for the arguments that are shown, and once;
saying the same again of the same CALL is harmless. Without a CALL the one that waits at this moment
is meant, which may be the next one of the task: a script names CALL or --digest. Asks the worker at LOOPWORKER_HTTP; when none answers there, the
decision is left in the store for whichever worker comes.

exit codes: 0 done · 3 nothing waits, not with these arguments, no longer, or decided otherwise

examples:
  loopworker {word}                               what waits
  loopworker {word} t-1 --why "talked to the customer"
  loopworker {word} t-1 call_2 --digest sha256:9c0d…    one of several, as it was seen
"""
_ARGUMENT_CHARS = 2_000
_HEADS = ("TASK", "CALL", "TOOL", "UNTIL", "DIGEST", "ARGUMENTS")


def configure_approve(parser: argparse.ArgumentParser) -> None:
    """Say what `approve` takes."""
    parser.description = "Allow a call that waits for it, or list what waits."
    _configure(parser, "approve")


def configure_deny(parser: argparse.ArgumentParser) -> None:
    """Say what `deny` takes."""
    parser.description = "Refuse a call that waits for approval, or list what waits."
    _configure(parser, "deny")


def approve(options: argparse.Namespace) -> int:
    """Allow a call."""
    return _decide(options, approved=True)


def deny(options: argparse.Namespace) -> int:
    """Refuse a call."""
    return _decide(options, approved=False)


def told_of(waiting: dict[str, Any], task_id: str) -> str:
    """Say in a line what a task waits for, and what can be done about it."""
    if waiting["kind"] == "session":
        has = f"task {one_line(waiting['task'])} has it" if waiting["task"] else "it is free"
        more = f", {waiting['ahead']} more in front" if waiting["ahead"] else ""
        return f"waits for session {one_line(waiting['session'])!r}: {has}{more}"
    what = f"{one_line(waiting['tool'])} {arguments_line(waiting)}"
    if waiting["kind"] == "job":
        handle = one_line(waiting["handle"])
        return f"waits until {waiting['expires_at']} for the job {handle} of {what}"
    wanted = f"loopworker approve|deny {one_line(task_id)} {one_line(waiting['call'])}"
    return f"waits until {waiting['expires_at']} for an approval of {what}: {wanted}"


def _configure(parser: argparse.ArgumentParser, word: str) -> None:
    parser.epilog = EPILOG.format(word=word)
    parser.add_argument("task", nargs="?", metavar="TASK", help="the task whose call waits")
    parser.add_argument("call", nargs="?", metavar="CALL", help="which call, if several wait")
    parser.add_argument("--digest", help="decide only if the arguments still have this digest")
    parser.add_argument("--why", default="", help="the reason; a denied call tells it to the model")
    parser.add_argument("--who", help="who says so (default: you)")
    parser.add_argument("--json", action="store_true", help="print JSON")


def _decide(options: argparse.Namespace, *, approved: bool) -> int:
    try:
        worker = the_worker()
        if options.task is None:
            return _list(worker.call("GET", "/v1/approvals?limit=500")["approvals"], options)
        call, decided = _remotely(worker, options, approved=approved)
    except NobodyAnswers:
        from worker.cli.places import with_desk

        return with_desk(lambda place: _locally(place, options, approved=approved))
    return _report(call, decided, options)


def _remotely(
    worker: Remote, options: argparse.Namespace, *, approved: bool
) -> tuple[dict[str, Any], dict[str, Any]]:
    path = f"/v1/tasks/{segment(options.task)}"
    call = _chosen(worker.call("GET", path)["waiting"], options)
    said = {"approved": approved, "by": options.who or myself(), "why": options.why}
    said |= {"call": call["call"], "digest": options.digest or call["digest"]}
    return call, worker.call("POST", f"{path}/approvals", said)


async def _locally(place: Any, options: argparse.Namespace, *, approved: bool) -> int:
    from worker.web.waiting import Decision, NotAccepted

    desk = place.desk.waiting
    if options.task is None:
        return _list(await desk.approvals(limit=500), options)
    view = await place.desk.look(options.task)
    if view is None:
        raise CommandFailed(f"there is no task {options.task!r}", code=NOT_ANSWERED)
    call = _chosen(view.to_wire()["waiting"], options)
    decision = Decision(
        approved=approved,
        by=options.who or myself(),
        why=options.why,
        call_id=call["call"],
        digest=options.digest or call["digest"],
    )
    try:
        decided = await desk.decide(options.task, decision)
    except NotAccepted as refused:
        raise CommandFailed(str(refused), code=NOT_ANSWERED) from None
    return _report(call, decided, options)


def _chosen(waiting: list[dict[str, Any]], options: argparse.Namespace) -> dict[str, Any]:
    """Find the one call that is meant."""
    calls = [each for each in waiting if each["kind"] == "approval"]
    if options.call is not None:
        calls = [each for each in calls if each["call"] == options.call]
    if not calls:
        which = "no call" if options.call is None else f"no call {options.call!r}"
        raise CommandFailed(
            f"{which} of {options.task!r} waits for an approval (loopworker status tells more)",
            code=NOT_ANSWERED,
        )
    if len(calls) > 1:
        for each in calls:
            tell(f"  {one_line(each['call'])}  {one_line(each['tool'])} {arguments_line(each)}")
        raise CommandFailed("several calls wait; name one", code=NOT_ANSWERED)
    return calls[0]


def _list(waiting: list[dict[str, Any]], options: argparse.Namespace) -> int:
    if options.json:
        print_json(waiting)
        return ANSWERED
    if not waiting:
        tell("loopworker: nothing waits for an approval")
        return ANSWERED
    fields = ("task", "call", "tool", "expires_at", "digest")
    print_table(_HEADS, [[*map(each.get, fields), arguments_line(each)] for each in waiting])
    return ANSWERED


def _report(call: dict[str, Any], decided: dict[str, Any], options: argparse.Namespace) -> int:
    if options.json:
        print_json(decided)
        return ANSWERED
    word = "approved" if decided["approved"] else "denied"
    what = f"{one_line(call['tool'])} {arguments_line(call)}"
    print(f"{one_line(decided['task'])}: {word} by {one_line(decided['by'])}: {what}")
    return ANSWERED


def arguments_line(call: dict[str, Any]) -> str:
    """Write the arguments of a call within a line."""
    text = one_line(json.dumps(call["arguments"], ensure_ascii=False))
    return text if len(text) <= _ARGUMENT_CHARS else f"{text[:_ARGUMENT_CHARS]}… (--json: all)"
