"""What the tests of one engine stand on."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from tests.queues.sqliterig import Rig
from tests.servers.postgresserver import PostgresServer, postgres_server

ROOT = Path(__file__).resolve().parents[2]
CHILD = Path(__file__).with_name("sqlitechild.py")
Start = Callable[..., Awaitable[asyncio.subprocess.Process]]


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A file that does not exist yet."""
    return f"sqlite:///{tmp_path}/tasks.db"


@pytest.fixture
async def start(url: str) -> AsyncIterator[Start]:
    """Start a child in a role; whatever still lives at the end is killed."""
    children: list[asyncio.subprocess.Process] = []

    async def begin(role: str, *arguments: str) -> asyncio.subprocess.Process:
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, str(CHILD), role, url, *arguments),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={"PYTHONPATH": str(ROOT), "PATH": ""},
        )
        children.append(child)
        return child

    yield begin
    for child in children:
        if child.returncode is None:
            child.kill()
        await child.communicate()


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    """A rig on an empty file."""
    rig = Rig(tmp_path)
    yield rig
    await rig.close()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server that asks for a password, for the whole session."""
    with postgres_server() as server:
        yield server
