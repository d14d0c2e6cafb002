"""The tools command: what a model is offered, what is wrong with it, and one call by hand."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from dataclasses import dataclass
from typing import Any

from worker.cli.exits import ANSWERED, NOT_ANSWERED, USAGE, CommandFailed
from worker.cli.output import one_line, print_json, print_table, tell
from worker.cli.reaching import connected, look, print_servers, servers_of, tell_troubles
from worker.ids import new_task_id

TOOLS_EPILOG = """\
Tools are found where LOOPWORKER_TOOLS says (default: the package `tools`): packages, folders or
files, separated by commas.

examples:
  loopworker tools                                       every tool with its guard
  loopworker tools show get_stock_price                  its schema, as a model sees it
  loopworker tools lint                                  what keeps models from calling it well
  loopworker tools call get_current_time timezone=Asia/Shanghai
  loopworker tools call get_order_detail '{"order_id": "20260101123456", "region": "CN"}'

exit codes of call: 0 a live result · 3 anything else (why: on stderr)
exit codes of lint: 0 nothing to mend · 1 warnings
"""


@dataclass(frozen=True, slots=True)
class Said:
    """Which tools are pollers, and which need an approval, as authors and settings have it."""

    pollers: frozenset[str]
    approvals: frozenset[str]


def configure_tools(parser: argparse.ArgumentParser) -> None:
    """Say what `tools` takes."""
    parser.description = "List the tools, lint them, or call one through its guard."
    parser.epilog = TOOLS_EPILOG
    parser.add_argument(
        "action", nargs="?", default="list", choices=("list", "show", "lint", "call")
    )
    parser.add_argument("name", nargs="?")
    parser.add_argument("arguments", nargs="*", metavar="k=v", help="or one JSON object")
    parser.add_argument("--json", action="store_true", help="print JSON")


def tools(options: argparse.Namespace) -> int:
    """List, show, lint or call."""
    from worker.cli.asking import adjusted
    from worker.configuration import load, named
    from worker.discovery import bare_places, load_registry
    from worker.running.handoffs import rules_of

    settings = adjusted(load(), tools=None).settings
    registry = load_registry(settings.tools)
    for place in bare_places(settings.tools):
        tell(f"loopworker: {place} in LOOPWORKER_TOOLS holds no tool; is an @tool missing?")
    if options.name is None and options.action in ("show", "call"):
        raise CommandFailed(f"tools {options.action}: which one? name it", code=USAGE)
    if options.action == "call":
        return _call(settings, registry, options)
    states = look(settings, registry, only=_servers_needed(settings, options))
    with named("LOOP__POLLERS"):
        pollers = registry.pollers(settings.loop.pollers)
    with named("WAITING__APPROVALS"):
        approvals = registry.approvals(settings.waiting.approvals)
    said = Said(pollers, approvals)
    rules = rules_of(settings.handoff, registry)
    if options.action == "list":
        code = _list(registry, said, as_json=options.json)
        if not options.json and states:
            print_servers(states)
        if rules and not options.json:
            print()
            print_table(("HAND-OFF RULE", "LOOKS AT", "FOR"), map(_rule_row, rules))
        tell_troubles(states)
        return code
    if options.action == "lint":
        code = _lint(registry, options)
        if settings.mcp and options.name is None:
            told = ", ".join(settings.mcp)
            tell(f"tools of MCP servers are not looked at, their words are not yours: {told}")
        return code
    print_json(tool_to_wire(_known(registry, options.name), said))
    return ANSWERED


def _servers_needed(settings: Any, options: argparse.Namespace) -> list[str]:
    """Which MCP servers have to be asked: all for a list, the tool's own else, none to lint."""
    if options.action == "list":
        return list(settings.mcp)
    return servers_of(settings, options.name) if options.action == "show" else []


def _known(registry: Any, name: str) -> Any:
    tool = registry.get(name)
    if tool is None:
        known = ", ".join(registry.names) or "none"
        raise CommandFailed(f"there is no tool {name!r}; there are: {known}", code=USAGE)
    return tool


def _list(registry: Any, said: Said, *, as_json: bool) -> int:
    from worker.discovery import unmet_needs

    if as_json:
        print_json([tool_to_wire(tool, said) for tool in registry])
        return ANSWERED
    rows = [
        (
            tool.name,
            _nature(tool, said),
            tool.dependency,
            tool.stub or "-",
            tool.description.splitlines()[0] if tool.description else "(no description)",
        )
        for tool in registry
    ]
    print_table(("TOOL", "EFFECT", "GUARD", "STUB", "DESCRIPTION"), rows)
    for name, variable in unmet_needs(registry):
        tell(f"loopworker: {name} needs {variable}, which is not set")
    for _, line in registry.undeclared():
        tell(f"loopworker: assumed to write: {line}")
    return ANSWERED


def _rule_row(rule: Any) -> tuple[str, str, str]:
    where = {"both": "answer, results", "answer": "answer", "results": "results"}[rule.on]
    of = f" of {', '.join(sorted(rule.tools))}" if rule.tools else ""
    return rule.name, where + of, rule.shown


def _nature(tool: Any, said: Said) -> str:
    """Say what a tool does to the world, and how it is called."""
    assumed = tool.effect != "read" and not tool.effect_declared
    parts = [tool.effect + (" (assumed)" if assumed else "")]
    parts += ["after approval"] if tool.name in said.approvals else []
    parts += ["job"] if tool.job else []
    parts += ["poller"] if tool.name in said.pollers else []
    if tool.sequential:
        parts.append(f"one by one: {tool.sequential}")
    return ", ".join(parts)


def tool_to_wire(tool: Any, said: Said) -> dict[str, Any]:
    """Write what is known of a tool as a JSON object, `said` on top of it."""
    return {
        "name": tool.name,
        "description": tool.description,
        "effect": tool.effect,
        "effect_declared": tool.effect_declared,
        "dependency": tool.dependency,
        "timeout_seconds": tool.timeout_seconds,
        "attempts": tool.attempts,
        "fail_max": tool.fail_max,
        "stub": tool.stub,
        "stale_seconds": tool.stale_seconds,
        "requires_approval": tool.name in said.approvals,
        "job": tool.job,
        "sequential": tool.sequential,
        "poller": tool.name in said.pollers,
        "pages": tool.pages,
        "source": f"{tool.source_file}:{tool.source_line}",
        "parameters": tool.parameters,
    }


def _lint(registry: Any, options: argparse.Namespace) -> int:
    from worker.toollint import lint

    found = [each for each in lint(registry) if options.name in (None, each.tool)]
    if options.json:
        fields = ("tool", "rule", "level", "message", "file", "line")
        print_json([{name: getattr(each, name) for name in fields} for each in found])
    else:
        for each in found:
            print(f"{each.level}: {each}")
    warnings = sum(each.level == "warning" for each in found)
    notes = len(found) - warnings
    counts = (len(registry), "tool"), (warnings, "warning"), (notes, "note")
    tell(", ".join(f"{count} {word}{'' if count == 1 else 's'}" for count, word in counts))
    return 1 if warnings else ANSWERED


def _call(settings: Any, registry: Any, options: argparse.Namespace) -> int:
    from worker.cli.aside import prints_aside
    from worker.cli.forever import run_forever

    outcome: Any = None
    tool: Any = None

    async def make() -> int:
        nonlocal outcome, tool
        only = servers_of(settings, options.name)
        async with connected(settings, registry, only=only) as states:
            tool = _known(registry, options.name)
            arguments = read_arguments(tool, options.arguments)
            violations = tool.validate(arguments)
            if violations:
                raise CommandFailed(f"{tool.name}: {'; '.join(violations)}", code=USAGE)
            with prints_aside():
                outcome = await _guarded(settings, registry, tool, arguments)
            tell_troubles(states)
        return ANSWERED

    run_forever(make)
    content = None
    if outcome.error is None:
        began = f"began the job {outcome.value['handle']}" if tool.job else None
        content = began or outcome.value["content"]
    if options.json:
        print_json(
            {
                "source": str(outcome.source),
                "content": content if content is not None else outcome.value,
                "reason": outcome.reason,
                "attempts": outcome.attempts,
                "duration_s": round(outcome.duration_seconds, 3),
                "error": None if outcome.error is None else str(outcome.error),
            }
        )
    elif content is not None:
        print(content)
    elif outcome.value is not None:
        print(outcome.value)
    if outcome.error is not None:
        tell(
            f"loopworker: {options.name}: {outcome.source} after {outcome.attempts}"
            f" attempt{'' if outcome.attempts == 1 else 's'}:"
            f" {one_line(outcome.error)}"
        )
    return ANSWERED if outcome.error is None else NOT_ANSWERED


async def _guarded(settings: Any, registry: Any, tool: Any, arguments: dict[str, Any]) -> Any:
    from functools import partial

    from worker import assembly
    from worker.observability import build_observability
    from worker.outbound.fetch import fetch_guarded
    from worker.running.toolguard import ToolGuards
    from worker.toolcontext import ToolContext

    seen = build_observability(settings, worker_id="cli", stream=sys.stderr)
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(seen.close, seconds=1.0)
        seen.logs.install()
        guards = assembly.build_guards(settings, registry, seen)
        stack.callback(guards.close)
        client = assembly.build_tool_client(settings, seen)
        stack.push_async_callback(client.aclose)
        context = ToolContext(
            http=client.client,
            idempotency_key=new_task_id(),
            deadline=time.monotonic() + settings.deadline,
            fetch=partial(fetch_guarded, allow_hosts=settings.outbound.allow_hosts),
        )
        caller = ToolGuards(guards, settings.guard, settings.guards)
        limit = settings.max_result_chars
        return await caller.call(tool, arguments, context, max_chars=limit)


def read_arguments(tool: Any, words: list[str]) -> dict[str, Any]:
    """Read `k=v` words, or one JSON object. A value is JSON where the schema wants no text."""
    if len(words) == 1 and words[0].lstrip().startswith("{"):
        try:
            value = json.loads(words[0])
        except ValueError as error:
            raise CommandFailed(f"arguments: not JSON: {error}", code=USAGE) from None
        assert isinstance(value, dict)
        return value
    properties = tool.parameters.get("properties", {})
    arguments = {}
    for word in words:
        name, sign, text = word.partition("=")
        if not sign:
            raise CommandFailed(f"arguments: {word!r} is not name=value", code=USAGE)
        arguments[name] = _value(text, properties.get(name, {}))
    return arguments


def _value(text: str, schema: Any) -> Any:
    wants_text = isinstance(schema, dict) and schema.get("type") == "string"
    if wants_text or (isinstance(schema, dict) and "enum" in schema):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text
