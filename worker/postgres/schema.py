"""Which form the tables of a PostgreSQL schema have, and how an older form becomes the present one.

The tables lie in a schema of their own, so that they meet no other tables of the database. Each
part has a version in the table `versions`. A part is brought up in one transaction that holds a lock
of the transaction (none of the session, which a pooling proxy would lose): of several processes one
does the work and the others find it done.

A worker of the version before may still be at work (a rolling deploy), so a step only adds: columns
with defaults, tables, indexes. A step that has been on main is never changed. `@` before a name in
any statement stands for the schema.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from worker.core.errors import ConfigError

VERSION_MIN = 13
SCHEMA = "loopworker"
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,39}")
_LOCK = 7_217_403_291  # ours alone, as far as chance goes
_QUALIFIED = re.compile(r"@(?=[a-z])")

SETTINGS = """
select name, setting from pg_settings
where name in ('server_version_num', 'fsync', 'synchronous_commit', 'full_page_writes',
  'default_transaction_isolation')
union all select 'in_recovery', pg_is_in_recovery()::text
"""
# From the catalogue itself: what `to_regclass` has once not found, a session may go on not finding
# until it locks a table.
FOUND = """
select exists (select from pg_tables where schemaname = %(schema)s and tablename = 'versions'),
  exists (select from pg_namespace where nspname = %(schema)s)
"""
LOCK = f"select pg_advisory_xact_lock({_LOCK})"
STAMPS = """
create table if not exists @versions (part text primary key, version integer not null)
"""
STAMPED = "select version from @versions where part = %(part)s"
STAMP = """
insert into @versions (part, version) values (%(part)s, %(version)s)
on conflict (part) do update set version = excluded.version
"""

Execute = Callable[[str, Mapping[str, Any]], Awaitable[Sequence[Any]]]


@dataclass(frozen=True, slots=True)
class Part:
    """The tables of one part of a schema.

    `schema` makes the present form and is text of `create … if not exists` alone. Step number n
    (from 1) takes the form of version n - 1 to that of version n, before `schema` adds what is new.
    """

    name: str
    schema: str
    steps: tuple[str, ...] = ()

    @property
    def version(self) -> int:
        """The version of the present form; the first is 0."""
        return len(self.steps)


def checked_name(name: str) -> str:
    """The name of a schema as it may stand in a statement. Raises ConfigError."""
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"{name!r} is no name of a schema: lower-case letters, digits and _, at most 40"
        )
    return name


@lru_cache(maxsize=512)
def qualified(statement: str, schema: str) -> str:
    """Put the schema's name before the names of tables."""
    return _QUALIFIED.sub(f'"{schema}".', statement)


def unfit(settings: Mapping[str, str]) -> str:
    """Why a server cannot be entrusted with tasks, and what to do; empty when it can."""
    version = int(settings.get("server_version_num", "0")) // 10_000
    if version and version < VERSION_MIN:
        return f"the server is version {version}; PostgreSQL {VERSION_MIN} or a later one is needed"
    for name in ("fsync", "full_page_writes"):
        if settings.get(name) == "off":
            return (
                f"{name} is off, so a crash of the machine may damage every table;"
                f" set {name} = on in postgresql.conf and reload"
            )
    if settings.get("synchronous_commit") == "off":
        return (
            "synchronous_commit is off, so a crash may lose tasks that were accepted;"
            " alter role … set synchronous_commit = on"
        )
    isolation = settings.get("default_transaction_isolation", "read committed")
    if isolation != "read committed":
        return (
            f"default_transaction_isolation is {isolation!r}, so workers that claim at once would fail"
            " each other; alter role … set default_transaction_isolation = 'read committed'"
        )
    if settings.get("in_recovery") == "true":
        return "the server is a standby and takes no tasks; name its primary"
    return ""


async def bring_up(execute: Execute, part: Part, schema: str) -> None:
    """Create the tables of a part, or lift them to the present form, within a transaction.

    Raises ConfigError for tables of a later version of this program.
    """
    await execute(LOCK, {})
    if await is_up(execute, part, schema):
        return  # while we waited; to do it again would lock tables that are in use by now
    [(_, is_there)] = await execute(FOUND, {"schema": schema})
    if not is_there:  # asked first: `if not exists` wants the right to create it all the same
        await execute(f'create schema "{schema}"', {})
    await execute(STAMPS, {})
    rows = await execute(STAMPED, {"part": part.name})
    if rows:
        _refuse_later(rows[0][0], part, schema)
        for step in part.steps[rows[0][0] :]:
            await execute(step, {})
    for statement in part.schema.split(";"):
        await execute(statement, {})
    await execute(STAMP, {"part": part.name, "version": part.version})


async def is_up(execute: Execute, part: Part, schema: str) -> bool:
    """Whether the tables of a part have the present form, as in nearly every start."""
    [(is_there, _)] = await execute(FOUND, {"schema": schema})
    if not is_there:
        return False
    rows = await execute(STAMPED, {"part": part.name})
    if rows:
        _refuse_later(rows[0][0], part, schema)
    return bool(rows) and rows[0][0] == part.version


def _refuse_later(version: int, part: Part, schema: str) -> None:
    if version > part.version:
        raise ConfigError(
            f"the tables of the {part.name} in schema {schema!r} are of version {version}, which a later"
            f" version of loopworker has made; this one knows {part.version}: run that later version"
        )
