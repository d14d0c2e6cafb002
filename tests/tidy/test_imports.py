"""Who may import whom, and which file may know which library."""

from __future__ import annotations

import functools
import graphlib
import re
import sys
import tomllib

import pytest

from tests.tidy.sources import (
    PACKAGES,
    ROOM_OF,
    ROOT,
    Import,
    imports_of,
    module_of,
    part_of,
    python_files,
    text_of,
)

# Room -> what it may import of ours: a whole room, or one module of it. Lower rooms come first;
# a room may only name rooms above its own line, which keeps the table acyclic to the eye as well.
MAY_IMPORT: dict[str, set[str]] = {
    "core": set(),
    "awaiting": set(),
    "ids": set(),
    "section": set(),
    "shownurl": set(),
    "fallbacksettings": {"core", "section", "shownurl"},
    "guardsettings": {"section"},
    "handoffsettings": {"section"},
    "loopsettings": {"core", "section"},
    "mcpsettings": {"section"},
    "sessionsettings": {"section"},
    "waitingsettings": {"section"},
    "settings": {
        *("core", "fallbacksettings", "guardsettings", "handoffsettings", "loopsettings"),
        *("mcpsettings", "section", "sessionsettings", "shownurl", "waitingsettings"),
    },
    "intake": {"core"},
    "telemetry": {"core"},
    "toolcontext": {"core"},
    "toolkit": {"core", "toolcontext"},
    "rendering": set(),
    "webpage": set(),
    "toolresult": {"core", "rendering", "webpage"},
    "outbound": {"core"},
    "http": {"core", "outbound", "telemetry"},
    "guard": {"core", "telemetry"},
    # guard: client.py only
    "model": {"awaiting", "core", "guard", "http", "outbound", "telemetry"},
    "registry": {"core", "model.port", "toolcontext", "toolkit"},
    "discovery": {"core", "registry", "toolkit"},
    "toollint": {"core", "registry", "toolkit"},
    "mcp": {"core", "guard", "mcpsettings", "registry", "settings", "telemetry", "toolkit"},
    "postgres": {"awaiting", "core", "shownurl"},
    "redisfit": set(),
    "redisbatch": set(),
    "redistalk": {"core"},
    "redislink": {"core", "redisbatch", "redisfit", "redistalk"},
    "sqliteopen": {"core"},
    "sqliteschema": {"core"},
    "sqlitejobs": {"awaiting"},
    "sqlitesync": set(),
    "sqlitefile": {
        *("awaiting", "core", "sqlitejobs", "sqliteopen", "sqliteschema", "sqlitesync"),
    },
    "queues": {
        *("awaiting", "core", "postgres", "redislink", "redistalk", "shownurl", "telemetry"),
        *("sqlitefile", "sqlitejobs", "sqliteopen", "sqliteschema"),
    },
    "store": {
        *("awaiting", "core", "postgres", "redislink", "redistalk", "shownurl", "telemetry"),
        *("sqlitefile", "sqlitejobs", "sqliteopen", "sqliteschema"),
    },
    "waking": {"core", "queues.port", "store.port"},
    "running": {
        *("core", "guard", "http", "model.port", "registry", "telemetry"),
        *("store.mailbox", "store.port"),
        *(
            "guardsettings",
            "handoffsettings",
            "toolcontext",
            "toolkit",
            "toolresult",
        ),  # an operator's overrides
    },
    "consuming": {
        *("core", "intake", "queues.port", "running", "store.mailbox", "store.port", "telemetry"),
        *("awaiting", "waking"),
    },
    "web": {
        *("core", "guard", "intake", "queues.port", "store.mailbox", "store.port", "telemetry"),
        *("awaiting", "running.sessions", "waking"),
    },
    "foreground": {"core", "running", "store.port", "waking"},
    "supervising": {"core", "telemetry", "web.admin"},
}
BELOW_APP = set(MAY_IMPORT)
MAY_IMPORT |= {
    "app": BELOW_APP,
    "__init__": BELOW_APP | {"app"},
    "testing": BELOW_APP | {"app", "__init__"},
    "demo": BELOW_APP | {"app", "__init__"},
    "cli": BELOW_APP | {"app", "__init__", "demo"},
    "__main__": {"cli"},
    "tools": {"__init__"},  # the public API, as any user's tool
}

# Library -> the only files that may import it. A folder ends in a slash.
MAY_KNOW: dict[str, set[str]] = {
    "aiohttp": {"worker/outbound/"},
    "aio_pika": {"worker/queues/rabbit_calls.py", "worker/queues/rabbit_link.py"},
    "pamqp": {"worker/queues/rabbit_patience.py"},
    "anyio": {"worker/mcp/"},
    "httpx": {"worker/http.py", "worker/outbound/", "worker/model/transport.py", "tools/"},
    "httpx2": {"worker/mcp/streamable.py"},
    "httpx_aiohttp": {"worker/outbound/"},
    "jsonschema_rs": {"worker/toolkit/check.py", "worker/toolkit/patterns.py"},
    "mcp": {
        *("worker/mcp/child.py", "worker/mcp/session.py"),
        *("worker/mcp/streamable.py", "worker/mcp/streams.py"),
    },
    "mcp_types": {"worker/mcp/child.py", "worker/mcp/session.py", "worker/mcp/streams.py"},
    "opentelemetry": {
        "worker/telemetry/spans.py",
        "worker/telemetry/tracing.py",
        "worker/app.py",
        "worker/observability.py",
    },
    "orjson": {
        "worker/app.py",
        "worker/consuming/publishing.py",
        "worker/model/deltas.py",
        "worker/model/jsontext.py",
        "worker/model/wire.py",
        "worker/running/toolguard.py",
        "worker/store/codec.py",
        "worker/telemetry/lines.py",
        "worker/rendering.py",
        "worker/toolresult.py",
        "worker/web/",
    },
    "prometheus_client": {"worker/telemetry/metrics.py", "worker/web/admin.py"},
    "psycopg": {"worker/postgres/link.py", "worker/postgres/pool.py", "worker/postgres/url.py"},
    "pybreaker": {"worker/guard/breaker.py"},
    "pydantic": {
        *("worker/configuration.py", "worker/fallbacksettings.py", "worker/guardsettings.py"),
        *("worker/handoffsettings.py", "worker/loopsettings.py", "worker/section.py"),
        *("worker/mcp/session.py", "worker/mcpsettings.py"),
        *("worker/sessionsettings.py", "worker/settingnames.py", "worker/settings.py"),
        "worker/waitingsettings.py",
        *("worker/toolkit/schema.py", "worker/web/api.py", "tools/"),
    },
    "pydantic_settings": {"worker/configuration.py", "worker/settings.py"},
    "pytest": {"worker/testing/"},  # suites are tests, shipped for other people's adapters
    "nats": {"worker/queues/nats_link.py", "worker/queues/nats_streams.py"},
    "hiredis": {"worker/redistalk.py"},
    "redis": {"worker/redislink.py", "worker/redistalk.py"},
    "selectolax": {"worker/webpage.py"},
    "sqlite3": {
        *("worker/sqlitefile.py", "worker/sqliteopen.py", "worker/sqliteschema.py"),
        "worker/sqlitesync.py",
        *("worker/queues/sqlite.py", "worker/queues/sqlite_changes.py"),
        *("worker/store/sqlite.py", "worker/store/sqlite_mail.py"),
        *("worker/store/sqlite_lastgood.py", "worker/store/sqlite_peers.py"),
        *("worker/store/sqlite_rows.py", "worker/store/sqlite_runs.py"),
        *("worker/store/sqlite_sessions.py", "tools/orders.py"),
    },
    "starlette": {"worker/web/", "worker/model/offline.py"},
    "structlog": {"worker/telemetry/logs.py"},
    "tenacity": {"worker/guard/retry.py"},
    "uvicorn": {"worker/web/server.py", "worker/model/offline.py", "worker/cli.py"},
    "uvloop": {"worker/cli/forever.py"},
    "yarl": {"worker/outbound/"},
}

# The core is given the time, the dice and the bytes as values.
IMPURE = {
    *("asyncio", "concurrent", "contextvars", "io", "logging", "multiprocessing", "os", "pathlib"),
    *("random", "secrets", "select", "selectors", "shutil", "signal", "socket", "sqlite3", "ssl"),
    *("subprocess", "sys", "tempfile", "threading", "time", "urllib.request", "uuid"),
}
CLOCK_CALLS = re.compile(r"\b(datetime\.now|datetime\.utcnow|datetime\.today|date\.today)\(")


@functools.cache
def ours():
    """Every import of the packages; not at import, which every process of a test run does."""
    return [found for path in python_files(*PACKAGES) for found in imports_of(path)]


def test_rooms_import_only_what_the_table_allows():
    """An import between rooms is a line of the table, or a mistake."""
    forbidden = [
        f"{found} ({part_of(found.path)} may not)" for found in ours() if not is_allowed(found)
    ]

    assert forbidden == []


def test_every_room_is_in_the_table():
    """A new room states what it may import before it imports anything."""
    rooms = {part_of(path) for path in python_files(*PACKAGES)}

    assert rooms - set(MAY_IMPORT) == set()


def test_table_has_no_cycle():
    """The allowed directions form layers."""
    graph = {room: {name.split(".")[0] for name in names} for room, names in MAY_IMPORT.items()}

    order = list(graphlib.TopologicalSorter(graph).static_order())

    assert set(order) == set(MAY_IMPORT)


def test_modules_have_no_cycle():
    """No module needs itself to be loaded: lazy imports and those for types apart."""
    modules = {module_of(path) for path in python_files(*PACKAGES)}
    graph: dict[str, set[str]] = {module: set() for module in modules}
    for found in ours():
        importer = module_of(found.path)
        imported = nearest(found.name, modules)
        if found.at_start and imported and imported != importer:
            graph[importer].add(imported)

    graphlib.TopologicalSorter(graph).prepare()


def test_core_is_pure():
    """The core imports the standard library only, and of it nothing that touches the world."""
    in_core = [found for found in ours() if part_of(found.path) == "core"]
    impure = [str(found) for found in in_core if not is_pure(found.name)]
    clocks = [
        str(path)
        for path in python_files("worker")
        if part_of(path) == "core" and CLOCK_CALLS.search(text_of(path))
    ]

    assert impure == []
    assert clocks == []


@pytest.mark.parametrize("library", sorted(MAY_KNOW))
def test_library_is_known_where_the_table_says(library: str):
    """A library that can be exchanged is imported in its own file only."""
    homes = tuple(MAY_KNOW[library])
    strangers = [
        str(found)
        for found in ours()
        if top(found.name) == library and not lies_in(str(found.path), homes)
    ]

    assert strangers == []


def test_every_library_is_in_the_table():
    """A new library gets a home, and a line in pyproject.toml."""
    known = set(MAY_KNOW) | set(PACKAGES) | set(sys.stdlib_module_names)
    unknown = [str(found) for found in ours() if top(found.name) not in known]

    assert unknown == []


def test_every_imported_library_is_declared():
    """What is imported is asked for by name, not got by luck through another package."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = list(project["dependencies"])
    for extra in project["optional-dependencies"].values():
        wanted += extra
    declared = {re.split(r"[^\w-]", line)[0].lower().replace("-", "_") for line in wanted}
    imported = {top(found.name) for found in ours()} & set(MAY_KNOW) - {"pytest", "sqlite3"}
    called = {"opentelemetry": "opentelemetry_sdk", "nats": "nats_py"}
    imported = {called.get(name, name) for name in imported}

    assert imported - declared == set()


def is_allowed(found: Import) -> bool:
    """Say whether the table has this direction."""
    name = found.name.removesuffix(".*")
    if top(name) not in PACKAGES:
        return True
    importer, parts = part_of(found.path), name.split(".")
    allowed = MAY_IMPORT.get(importer, BELOW_APP)
    if parts[0] == "tools":
        return importer in ("tools", "cli", "demo")
    if len(parts) == 1 or parts[1] in ("tool", "__version__") or parts[1][0].isupper():
        return "__init__" in allowed or importer == "__init__"
    room = ROOM_OF.get(parts[1], parts[1])
    if room == importer or room in allowed:
        return True
    return ".".join(parts[1:3]) in allowed


def nearest(name: str, modules: set[str]) -> str | None:
    """Return the module that an imported name lies in."""
    while name and name not in modules:
        name = name.rpartition(".")[0]
    return name or None


def is_pure(name: str) -> bool:
    """Say whether the core may import this."""
    if name.startswith("worker.core"):
        return True
    if top(name) not in sys.stdlib_module_names:
        return False
    return top(name) not in IMPURE and name.rpartition(".")[0] not in IMPURE


def top(name: str) -> str:
    """Return the package that a dotted name starts with."""
    return name.partition(".")[0]


def lies_in(path: str, homes: tuple[str, ...]) -> bool:
    """Say whether a file is one of the homes, or lies in one that is a folder."""
    return any(path == home or (home.endswith("/") and path.startswith(home)) for home in homes)
