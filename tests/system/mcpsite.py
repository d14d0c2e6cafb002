"""Settings for a worker with MCP servers: the hostile one, and a real one from the registry."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.system.processes import ROOT

# Small times, so that a server that dies is back soon.
QUICK = {"RESTART_SECONDS": "0.1", "TIMEOUT_SECONDS": "1", "EFFECTS": "echo=read,hang=read"}


def hostile(folder: Path, *, name: str = "H", **more: str) -> dict[str, str]:
    """A server `h` that does harm when asked to, and notes in a file what it does."""
    said = {
        "COMMAND": sys.executable,
        "ARGS": f"-m tests.mcp.hostile stdio {folder / 'notes'}",
        "ENV__PYTHONPATH": str(ROOT),
        **QUICK,
        **more,
    }
    return {f"MCP__{name}__{key}": value for key, value in said.items()}


def over_http(port: int, **more: str) -> dict[str, str]:
    """The same over streamable HTTP; the test starts it itself."""
    said = {"URL": f"http://127.0.0.1:{port}/mcp", **QUICK, **more}
    return {f"MCP__H__{key}": value for key, value in said.items()}


def real(**more: str) -> dict[str, str]:
    """The reference server for times, as it is published."""
    said = {"COMMAND": sys.executable, "ARGS": "-m mcp_server_time --local-timezone UTC", **more}
    return {f"MCP__TIME__{key}": value for key, value in said.items()}


def notes(folder: Path) -> list[str]:
    """What the hostile server did, in order."""
    file = folder / "notes"
    return file.read_text().splitlines() if file.exists() else []


def started(folder: Path) -> list[int]:
    """The processes of the hostile server, in order."""
    return [int(line.split()[1]) for line in notes(folder) if line.startswith("started")]


def is_there(pid: int) -> bool:
    """Whether a process runs; one that waits to be reaped does not."""
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return False
    return state != "Z"
