"""Which form the tables of a SQLite file have, and how an older form becomes the present one.

Queue and store may share a file or have one each, so every part has a version of its own, in the
table `schema_versions`. A part is brought up when it is opened, in one transaction that takes the
write lock first: of several processes one does the work and the others find it done, and whoever
dies of it leaves the file as it was.

A worker of the version before may still be at work on the file (a rolling deploy), so a step only
adds: columns with defaults, tables, indexes. A step that has been on main is never changed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from worker.core.errors import ConfigError, FileTooNew

Step = str | Callable[[sqlite3.Connection], None]

_STAMPS = """
create table if not exists schema_versions (part text primary key, version integer not null) strict
"""
_STAMP = """
insert into schema_versions (part, version) values (?, ?)
on conflict (part) do update set version = excluded.version
"""


@dataclass(frozen=True, slots=True)
class Part:
    """The tables of one part of a file, `main` among them.

    `schema` makes the present form and is text of `create … if not exists` alone. Step number n
    (from 1) takes the form of version n - 1 to that of version n, before `schema` adds what is
    new altogether; it is SQL or a function. Version 0 is a file from before there were versions.
    """

    name: str
    main: str
    schema: str
    steps: tuple[Step, ...]

    @property
    def version(self) -> int:
        """The version of the present form."""
        return len(self.steps)


def bring_up(connection: sqlite3.Connection, part: Part, *, path: str) -> None:
    """Create the tables of a part, or lift them to the present form, or find that all is well.

    Raises FileTooNew, ConfigError and sqlite3.Error; then nothing has been changed.
    """
    if _found(connection, part) == part.version:
        return  # as in nearly every start: nobody is kept waiting for a lock
    connection.execute("begin immediate")
    try:
        _lift(connection, part, path)
        connection.execute("commit")
    finally:
        if connection.in_transaction:
            connection.execute("rollback")


def add_column(table: str, name: str, definition: str) -> Step:
    """A step that adds a column where it is missing: some files got it before versions.

    A table that is missing altogether is made later, by the schema, with all of its columns.
    """

    def step(connection: sqlite3.Connection) -> None:
        columns = _columns(connection, table)
        if columns and name not in columns:
            connection.execute(f"alter table {table} add column {name} {definition}")

    return step


def _lift(connection: sqlite3.Connection, part: Part, path: str) -> None:
    found = _found(connection, part)  # anew: another process may have been at it
    if found is not None and found > part.version:
        raise FileTooNew(
            f"{path}: the tables of the {part.name} in this file have version {found}, and this"
            f" loopworker knows them up to version {part.version}; a newer loopworker has used the"
            " file: run that version or a later one, or name another file"
        )
    if found is not None:
        for step in part.steps[found:]:
            _take(connection, step)
    _check(connection, part, path)
    _take(connection, part.schema)
    connection.execute(_STAMPS)
    connection.execute(_STAMP, (part.name, part.version))


def _take(connection: sqlite3.Connection, step: Step) -> None:
    if callable(step):
        step(connection)
        return
    for statement in statements(step):
        connection.execute(statement)


def _found(connection: sqlite3.Connection, part: Part) -> int | None:
    """The version of a part in the file; None when the file has nothing of it."""
    if "version" in _columns(connection, "schema_versions"):
        row = connection.execute(
            "select version from schema_versions where part = ?", (part.name,)
        ).fetchone()
        if row is not None:
            return int(row[0])
    return 0 if _columns(connection, part.main) else None


def _check(connection: sqlite3.Connection, part: Part, path: str) -> None:
    """Refuse tables that have our names and not our columns: they are somebody else's."""
    model = sqlite3.connect(":memory:")
    try:
        _take(model, part.schema)
        tables = model.execute("select name from sqlite_schema where type = 'table'").fetchall()
        for (table,) in tables:
            columns = _columns(connection, table)
            missing = _columns(model, table) - columns
            if columns and missing:
                raise ConfigError(
                    f"{path}: the table {table!r} in this file is not as loopworker has it (no"
                    f" {', '.join(sorted(missing))}): it is another program's, or of an early"
                    " development version; name another file"
                )
    finally:
        model.close()


def _columns(connection: sqlite3.Connection, table: str) -> set[str]:
    # table_xinfo: table_info keeps generated columns to itself.
    return {row[1] for row in connection.execute(f"pragma table_xinfo({table})")}


def statements(script: str) -> Iterator[str]:
    """The statements of a script, one by one: `executescript` would commit before it begins."""
    statement = ""
    for piece in script.split(";"):
        statement += piece + ";"
        if sqlite3.complete_statement(statement):
            if statement.strip("; \n"):
                yield statement
            statement = ""
