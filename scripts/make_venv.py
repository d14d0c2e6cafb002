"""Make a virtual environment hold exactly what a lock file says, and do nothing if it does.

Runs under the base interpreter with the standard library only. The stamp inside the environment
is keyed on the lock, pyproject.toml, the interpreter and the environment's own path, so a changed
lock is installed, and an environment that was moved or whose Python went away is built anew.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import zlib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STAMP = "loopworker-setup.stamp"
NO_VENV = """\
Cannot make a virtual environment with {python}: {why}
Install one package and try again, on Debian or Ubuntu:

    apt-get install python3-venv
"""


def main() -> int:
    """Bring one environment up to date; 0 when it is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--venv", type=Path, default=ROOT / ".venv")
    parser.add_argument("--lock", type=Path, default=ROOT / "requirements-dev.lock")
    options = parser.parse_args()
    venv, lock = options.venv.absolute(), options.lock.absolute()
    # Two set-ups at once would tear the environment apart; the second waits, then finds it done.
    # Each environment has a byte of the file for its lock: others are made at the same time.
    with open(ROOT / "pyproject.toml", "r+b") as project:
        fcntl.lockf(project, fcntl.LOCK_EX, 1, zlib.crc32(bytes(venv)))
        key = stamp_key(venv, lock, project.read())
        if is_healthy(venv) and read_stamp(venv) == key:
            return 0
        return build(venv, lock, key)


def stamp_key(venv: Path, lock: Path, project: bytes) -> str:
    """Digest everything that decides what the environment should hold."""
    digest = hashlib.sha256(project)
    digest.update(lock.read_bytes())
    digest.update(Path(__file__).read_bytes())
    digest.update(f"{venv}\n{sys.version}\n{sys.base_prefix}".encode())
    return digest.hexdigest()


def read_stamp(venv: Path) -> str:
    """Return the key that the last complete set-up left, or nothing."""
    try:
        return (venv / STAMP).read_text().strip()
    except OSError:
        return ""


def is_healthy(venv: Path) -> bool:
    """Say whether the environment's Python runs, is ours, and belongs to this folder."""
    asked = "import sys; print(sys.prefix); print(sys.version); print(sys.base_prefix)"
    try:
        answer = subprocess.run(
            [python_of(venv), "-c", asked], capture_output=True, text=True, timeout=60, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return False
    expected = f"{venv}\n{sys.version}\n{sys.base_prefix}\n"
    return answer == expected and was_made_here(venv) and can_install(venv)


def was_made_here(venv: Path) -> bool:
    """Say whether the environment was created at this path: its scripts name that path."""
    try:
        made = (venv / "pyvenv.cfg").read_text()
    except OSError:
        return False
    return any(
        line.startswith("command") and line.endswith(f" {venv}") for line in made.splitlines()
    )


def can_install(venv: Path) -> bool:
    """Say whether pip lies in the environment; importing it just to ask would be slow."""
    return any(venv.glob("lib/python*/site-packages/pip/__main__.py"))


def build(venv: Path, lock: Path, key: str) -> int:
    """Create the environment where it is missing or broken, then install the lock and ourselves."""
    (venv / STAMP).unlink(missing_ok=True)
    if not is_healthy(venv):
        say(f"creating {shown(venv)} with Python {sys.version.split()[0]}")
        shutil.rmtree(venv, ignore_errors=True)
        problem = create(venv)
        if problem:
            shutil.rmtree(venv, ignore_errors=True)
            print(NO_VENV.format(python=sys.executable, why=problem), file=sys.stderr)
            return 1
    say(f"installing {shown(lock)}")
    locked = ["--require-hashes", "--no-deps", "-r", str(lock)]
    ourselves = ["--no-deps", "--no-build-isolation", "--editable", str(ROOT)]
    for what in (locked, ourselves):
        code = pip(python_of(venv), "install", *what)
        if code:
            return code
    (venv / STAMP).write_text(key + "\n")
    say(f"{shown(venv)} is ready")
    return 0


def create(venv: Path) -> str:
    """Make an environment with pip in it; return what stood in the way, or an empty text.

    Debian and Ubuntu ship `venv` without `ensurepip` until python3-venv is installed. The base
    interpreter's own pip can then put pip into the empty environment: `--target` needs neither a
    recent pip nor the permission that PEP 668 withholds.
    """
    if importlib.util.find_spec("ensurepip") and run(sys.executable, "-m", "venv", str(venv)) == 0:
        return ""
    if importlib.util.find_spec("venv") is None:
        return "the venv module is missing."
    shutil.rmtree(venv, ignore_errors=True)
    if run(sys.executable, "-m", "venv", "--without-pip", str(venv)):
        return "the venv module fails."
    if importlib.util.find_spec("pip") is None:
        return "neither ensurepip nor pip is installed."
    site = sysconfig.get_path("purelib", "venv", vars={"base": str(venv)})
    if pip(sys.executable, "install", "--target", site, "pip"):
        return "pip could not be installed into it."
    return ""


def pip(python: str, command: str, *arguments: str) -> int:
    """Run pip with the machine's own settings, save those that forbid what we are doing.

    Quiet twice: a mirror of the machine that lacks a package warns once for each, to no use.
    """
    environment = dict(os.environ, PIP_USER="0", PIP_REQUIRE_VIRTUALENV="0")
    environment["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"
    environment.pop("PYTHONPATH", None)
    return run(python, "-m", "pip", command, "-qq", *arguments, env=environment)


def run(*command: str, env: dict[str, str] | None = None) -> int:
    """Run a command with our output and return its exit code."""
    return subprocess.run(command, env=env, check=False).returncode


def python_of(venv: Path) -> str:
    """Return the path of the environment's interpreter."""
    return str(venv / "bin" / "python")


def shown(path: Path) -> str:
    """Return a path as a person in this folder would type it."""
    return os.path.relpath(path, ROOT)


def say(text: str) -> None:
    """Tell the person what takes time."""
    print(f"setup: {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
