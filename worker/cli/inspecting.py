"""Commands that look before anything runs: the settings in force, and whether all can be reached."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING

from worker.cli.exits import ANSWERED, USAGE
from worker.cli.finding import Finding, checked
from worker.cli.lasting import check_lasting
from worker.cli.modelcheck import check_models
from worker.cli.output import Paint, one_line, print_json, print_table, tell
from worker.cli.reaching import check_servers
from worker.cli.shardcheck import check_shards

if TYPE_CHECKING:
    from worker.registry import Tool
    from worker.settings import Settings

CONFIG_EPILOG = """\
Settings come from the environment (LOOPWORKER_QUEUE_URL; nested: LOOPWORKER_GUARD__TIMEOUT_SECONDS),
then from a TOML file (LOOPWORKER_CONFIG, else ./loopworker.toml), then the default. Secrets and
passwords in URLs are masked. Times are seconds; 90s, 1.5m and 2h are read as well. In the file
LOOPWORKER_CONCURRENCY is `concurrency = 32`, and LOOPWORKER_GUARD__TIMEOUT_SECONDS is
`timeout_seconds = 3` under `[guard]`. The last lines are variables that the example tools read.

examples:
  loopworker config                     what is set, and what is not
  loopworker config --changed           only what differs from the default
  loopworker config --json
"""

DOCTOR_EPILOG = """\
Looks at settings, tools, listeners, queue, store, MCP servers and every model endpoint; changes nothing but the
tables of a SQLite file that is new or of an older version. Each finding says what to do. Then each
model is asked for a real tool call, about four requests within 30 s, and the lines named `dialect`
say what the endpoint does differently (odd: dealt with, and how; FAIL: in the way). A Redis server that
would lose what it holds is odd as well.

exit codes: 0 all well · 2 something is set up wrong · 4 something cannot be reached
"""
MARK_COLOURS = {"ok": "green", "odd": "yellow", "FAIL": "red"}


def configure_config(parser: argparse.ArgumentParser) -> None:
    """Say what `config` takes."""
    parser.description = "Print every setting with its value, where it came from, and its default."
    parser.epilog = CONFIG_EPILOG
    parser.add_argument("--json", action="store_true", help="print JSON, descriptions included")
    parser.add_argument("--changed", action="store_true", help="leave out what is at its default")


def config(options: argparse.Namespace) -> int:
    """Print the settings in force."""
    from worker.configuration import effective, load, tool_variables

    loaded = load()
    settings = [
        each
        for each in (*effective(loaded), *tool_variables())
        if not options.changed or each.source != "default"
    ]
    if options.json:
        fields = ("name", "value", "source", "default", "description", "unit")
        print_json([{name: getattr(each, name) for name in fields} for each in settings])
    else:
        rows = [
            (s.name, _shown(s.value, s.unit), _shown(s.default, s.unit), s.source) for s in settings
        ]
        print_table(("SETTING", "VALUE", "DEFAULT", "SOURCE"), rows)
    for name in loaded.ignored:
        tell(f"loopworker: {name} is set, but means nothing here")
    return ANSWERED


def _shown(value: object, unit: str = "") -> str:
    if value is None:
        return "-"
    if isinstance(value, list):
        return ",".join(map(str, value)) or "-"
    if isinstance(value, dict):
        return ",".join(f"{key}={entry}" for key, entry in value.items()) or "-"
    return f"{value:g} {unit}".rstrip() if isinstance(value, float) else str(value)


def configure_doctor(parser: argparse.ArgumentParser) -> None:
    """Say what `doctor` takes."""
    parser.description = "Check settings, tools and connections."
    parser.epilog = DOCTOR_EPILOG
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--no-probe", action="store_true", help="do not ask the model anything")


def doctor(options: argparse.Namespace) -> int:
    """Check everything, print what was found, return the gravest code."""
    from worker.configuration import load

    loaded = load()  # a wrong setting ends it here, with its name
    changed = sum(source != "default" for source in loaded.sources.values())
    findings = [Finding("settings", f"{changed} set, the rest at their defaults")]
    findings += [
        Finding("settings", f"{name} is set, but means nothing here") for name in loaded.ignored
    ]
    findings += _still(loaded.settings)
    findings += asyncio.run(_moving(loaded.settings, probe=not options.no_probe))
    if options.json:
        print_json([each.as_data() for each in findings])
    else:
        paint = Paint(sys.stdout)
        for each in findings:
            mark = paint(f"{each.mark:<4}", MARK_COLOURS[each.mark])
            print(f"{mark}  {each.what:<9} {one_line(each.text)}")
    return max((each.code for each in findings), default=ANSWERED)


def _still(settings: Settings) -> Iterator[Finding]:
    """Check what needs no connection."""
    from worker.checks import listening_address
    from worker.core.errors import ConfigError
    from worker.web.gate import check_exposure

    try:
        yield from _tools(settings)
    except ConfigError as error:
        yield Finding("tools", str(error), USAGE)
    try:
        address = listening_address(settings.http, setting="LOOPWORKER_HTTP")
        if address is not None:
            token = settings.http_token
            check_exposure(address[0], token.get_secret_value() if token else None)
        yield Finding("listeners", f"admin {settings.admin}, API {settings.http}")
    except ConfigError as error:
        yield Finding("listeners", str(error), USAGE)
    if settings.prices and settings.unpriced_models():
        missing = ", ".join(settings.unpriced_models())
        yield Finding("prices", f"none for {missing} (LOOPWORKER_PRICES): its cost is not known")


def _tools(settings: Settings) -> Iterator[Finding]:
    from worker.checks import unused_guards
    from worker.configuration import named
    from worker.discovery import bare_places, load_registry, unmet_needs
    from worker.running.handoffs import rules_of
    from worker.toollint import lint

    registry = load_registry(settings.tools)
    warnings = sum(each.level == "warning" for each in lint(registry))
    hint = f"; {warnings} warnings, see `loopworker tools lint`" if warnings else ""
    yield Finding("tools", f"{len(registry)} found: {', '.join(registry.names) or 'none'}{hint}")
    for server in settings.mcp:
        registry.expect(f"{server}.", _unseen)  # its tools are named by the check of the servers
    with named("WAITING__APPROVALS"):
        registry.approvals(settings.waiting.approvals)
    with named("LOOP__POLLERS"):
        registry.pollers(settings.loop.pollers)
    rules = rules_of(settings.handoff, registry)
    if rules:
        names = ", ".join(rule.name for rule in rules)
        yield Finding("hand-off", f"{len(rules)} rule{'s' * (len(rules) != 1)}: {names}")
    for place in bare_places(settings.tools):
        yield Finding("tools", f"{place} holds no tool (LOOPWORKER_TOOLS); is an @tool missing?")
    for tool, variable in unmet_needs(registry):
        yield Finding("tools", f"{tool} needs {variable}, which is not set")
    for line in unused_guards(settings, [(tool.name, tool.dependency) for tool in registry]):
        yield Finding("guards", line)


def _unseen(name: str) -> Tool:
    raise KeyError(f"{name} has not been asked of its server")


async def _moving(settings: Settings, *, probe: bool) -> list[Finding]:
    """Check what has to be reached, each within its time."""
    checks: dict[str, Callable[[Settings], Awaitable[Finding]]] = {
        "queue": _queue,
        "store": _store,
    }
    findings = [await checked(what, check(settings)) for what, check in checks.items()]
    findings += await check_shards(settings)
    findings += await check_lasting(settings)
    findings += await check_servers(settings)
    return findings + await check_models(settings, probe=probe)


async def _queue(settings: Settings) -> Finding:
    from worker.configuration import masked
    from worker.queues import open_queue

    queue = await asyncio.to_thread(open_queue, settings.queue_url, **settings.queue_options())
    try:
        depth = await queue.depth()
    finally:
        await queue.close()
    counts = f"{depth.ready} ready, {depth.leased} in work, {depth.dead} dead"
    return Finding("queue", f"{masked(settings.queue_url)}: {counts}")


async def _store(settings: Settings) -> Finding:
    from worker.configuration import masked
    from worker.store import open_store

    url = settings.store_url or settings.queue_url
    store = await asyncio.to_thread(open_store, url)
    try:
        runs = await store.recent(limit=1)
    finally:
        await store.close()
    return Finding("store", f"{masked(url)}: {'has runs' if runs else 'no runs yet'}")
