"""Commands of an operator: guards, dead letters, stopping a task."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime, timedelta
from typing import Any

from worker.cli.exits import ANSWERED, NOT_ANSWERED, USAGE, CommandFailed
from worker.cli.output import one_line, print_json, print_table, tell
from worker.cli.remote import NobodyAnswers, myself, segment, the_worker

GUARD_EPILOG = """\
examples:
  loopworker guard                                 every guard of the running worker
  loopworker guard show quote                      its layers, counts and window
  loopworker guard open quote --why "vendor maintenance" --for 2h
  loopworker guard release quote                   let the breaker decide again

A guard has the name of the dependency that it guards, and goes by the name of each tool behind it
as well: what is done to one of them is done to all.

talks to the worker at LOOPWORKER_HTTP (with LOOPWORKER_HTTP_TOKEN, if it has one)
"""
DEAD_EPILOG = """\
examples:
  loopworker dead                                  what was given up, and why
  loopworker dead show ID                          one letter with its bytes and history
  loopworker dead redrive ID [ID …]                back into the queue with a fresh count
  loopworker dead redrive --all

works on LOOPWORKER_QUEUE_URL itself; no worker has to run
"""
CANCEL_EPILOG = """\
A waiting task ends at once, a running one as soon as its worker sees it. Asks the worker at
LOOPWORKER_HTTP; when none answers there, writes to queue and store itself.

example:
  loopworker cancel 3f2a…
"""
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def configure_guard(parser: argparse.ArgumentParser) -> None:
    """Say what `guard` takes."""
    parser.description = "Show the guards of the running worker, or hold a breaker by hand."
    parser.epilog = GUARD_EPILOG
    parser.add_argument(
        "action", nargs="?", default="show", choices=("show", "open", "close", "release")
    )
    parser.add_argument("name", nargs="?", help="a dependency or a tool, see `loopworker guard`")
    parser.add_argument("--why", help="the reason, kept with the override")
    parser.add_argument("--who", help="who says so (default: you)")
    parser.add_argument("--for", dest="span", metavar="TIME", help="how long: 90s, 30m, 2h")
    parser.add_argument("--json", action="store_true", help="print JSON")


def guard(options: argparse.Namespace) -> int:
    """Show the guards, or hold one."""
    if options.action != "show":
        return _force(options)
    guards = the_worker().call("GET", "/v1/guards")["guards"]
    if options.name is not None:
        guards = [_guard_of(options.name, guards)]
    if options.json:
        print_json(guards)
    elif options.name is not None:
        print_json(guards[0])
    else:
        heads = ("NAME", "STATE", "IN USE", "OPEN FOR", "FAILURES", "OVERRIDE", "TOOLS")
        print_table(heads, [_guard_row(each) for each in guards])
    return ANSWERED


def _guard_of(name: str, guards: list[dict[str, Any]]) -> dict[str, Any]:
    """Find a guard by its own name, else by that of a tool behind it, and tell the detour."""
    for each in guards:
        if each["name"] == name:
            return each
    for each in guards:
        if name in each.get("tools", ()):
            tell(f"loopworker: {_detour(name, each)}")
            return each
    raise _no_guard(name, guards)


def _detour(tool: str, seen: dict[str, Any]) -> str:
    others = [name for name in seen["tools"] if name != tool]
    beside = f", as {', '.join(others)} {'is' if len(others) == 1 else 'are'}" if others else ""
    return f"the tool {tool} is guarded as {seen['name']!r}{beside}"


def _force(options: argparse.Namespace) -> int:
    if options.name is None:
        raise CommandFailed(f"guard {options.action}: which one? name it", code=USAGE)
    if options.why is None and options.action != "release":
        raise CommandFailed(
            f'guard {options.action}: say why, --why "…"; whoever is on call next will ask',
            code=USAGE,
        )
    body = {
        "who": options.who or myself(),
        "why": options.why or "released",
        "until": _until(options.span),
    }
    path = f"/v1/guards/{segment(options.name)}/{options.action}"
    remote = the_worker()
    try:
        seen = remote.call("POST", path, body)
    except CommandFailed as failure:
        if failure.code != NOT_ANSWERED:
            raise
        raise _no_guard(options.name, remote.call("GET", "/v1/guards")["guards"]) from None
    if seen["name"] != options.name:
        tell(f"loopworker: {_detour(options.name, seen)}")
    if options.json:
        print_json(seen)
    else:
        print(f"{seen['name']}: {seen['state']}")
    return ANSWERED


def _no_guard(name: str, guards: list[dict[str, Any]]) -> CommandFailed:
    names = ", ".join(_with_tools(each) for each in guards) or "none"
    message = f"there is no guard named {name!r}, and no tool; there are: {names}"
    return CommandFailed(message, code=NOT_ANSWERED)


def _with_tools(seen: dict[str, Any]) -> str:
    tools = [tool for tool in seen.get("tools", ()) if tool != seen["name"]]
    return f"{seen['name']} ({', '.join(tools)})" if tools else str(seen["name"])


def _guard_row(seen: dict[str, Any]) -> tuple[Any, ...]:
    left, held = seen.get("open_seconds_left"), seen.get("override")
    return (
        seen["name"],
        seen["state"],
        f"{seen.get('in_use', 0)}/{seen.get('limit', '?')}",
        "" if left is None else f"{left:.0f} s",
        seen.get("consecutive_failures", ""),
        f"{held['kind']} by {held['who']}: {held['why']}" if held else "",
        ", ".join(seen.get("tools", ())),
    )


def configure_dead(parser: argparse.ArgumentParser) -> None:
    """Say what `dead` takes."""
    parser.description = "List, show and redrive the tasks that were given up."
    parser.epilog = DEAD_EPILOG
    parser.add_argument("action", nargs="?", default="list", choices=("list", "show", "redrive"))
    parser.add_argument("ids", nargs="*", metavar="ID")
    parser.add_argument("--all", action="store_true", help="redrive every letter")
    parser.add_argument("--limit", type=int, default=50, help="letters to list (default 50)")
    parser.add_argument("--json", action="store_true", help="print JSON")


def dead(options: argparse.Namespace) -> int:
    """List, show or redrive dead letters."""
    from worker.cli.places import with_desk

    if options.action == "redrive":
        if bool(options.ids) == options.all:
            raise CommandFailed("dead redrive: name letters, or say --all", code=USAGE)
        return with_desk(lambda place: _redrive(place, options))
    if options.action == "show" and len(options.ids) != 1:
        raise CommandFailed("dead show: name one letter", code=USAGE)
    if options.action == "list" and options.ids:
        raise CommandFailed("dead list: takes no ID; dead show ID shows one letter", code=USAGE)
    return with_desk(lambda place: _list(place, options))


async def _list(place: Any, options: argparse.Namespace) -> int:
    from worker.web.views import letter_to_wire

    wanted = options.ids[0] if options.action == "show" else None
    letters = await place.queue.dead(limit=options.limit if wanted is None else 10_000)
    shown = [letter_to_wire(each) for each in letters if wanted in (None, each.id)]
    if wanted is not None and not shown:
        raise CommandFailed(f"there is no dead letter {wanted!r}", code=NOT_ANSWERED)
    if wanted is not None or options.json:
        print_json(shown[0] if wanted is not None else shown)
        return ANSWERED
    rows = [(each["died_at"], each["id"], each["deliveries"], each["reason"]) for each in shown]
    print_table(("DIED", "ID", "DELIVERIES", "REASON"), rows)
    return ANSWERED


async def _redrive(place: Any, options: argparse.Namespace) -> int:
    ids = options.ids or [letter.id for letter in await place.queue.dead(limit=100_000)]
    missing = [task_id for task_id in ids if not await place.desk.redrive(task_id)]
    for task_id in missing:
        tell(f"loopworker: there is no dead letter {task_id!r}")
    if len(missing) < len(ids) or not ids:
        print(f"{len(ids) - len(missing)} redriven")
    return NOT_ANSWERED if missing else ANSWERED


def configure_cancel(parser: argparse.ArgumentParser) -> None:
    """Say what `cancel` takes."""
    parser.description = "Stop a task."
    parser.epilog = CANCEL_EPILOG
    parser.add_argument("id", metavar="ID")


def cancel(options: argparse.Namespace) -> int:
    """Stop a task: through the running worker, which may have it in hand, or without one."""
    try:
        view = the_worker().call("DELETE", f"/v1/tasks/{segment(options.id)}")
    except NobodyAnswers:
        from worker.cli.places import with_desk

        return with_desk(lambda place: _cancel(place, options.id))
    return _cancelled(options.id, view)


async def _cancel(place: Any, task_id: str) -> int:
    view = await place.desk.cancel(task_id)
    if view is None:
        raise CommandFailed(f"there is no task {task_id!r}", code=NOT_ANSWERED)
    return _cancelled(task_id, view.to_wire())


def _cancelled(task_id: str, view: dict[str, Any]) -> int:
    result = view.get("result")
    print(f"{one_line(task_id)}: {result['status'] if result else view['status']}")
    return ANSWERED


def _until(span: str | None) -> str | None:
    if span is None:
        return None
    number, unit = span[:-1], span[-1:]
    if unit not in _UNITS or not number.isdigit() or int(number) < 1:
        raise CommandFailed(f"--for {span}: write 90s, 30m, 2h or 1d", code=USAGE)
    return (datetime.now(UTC) + timedelta(seconds=int(number) * _UNITS[unit])).isoformat()
