"""`make setup` notices what it must, and costs nothing when there is nothing to do."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """The set-up script, which is no part of a package."""
    place = ROOT / "scripts" / "make_venv.py"
    spec = importlib.util.spec_from_file_location("make_venv", place)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def venv(tmp_path_factory) -> Path:
    """An empty environment with a stand-in for pip."""
    folder = tmp_path_factory.mktemp("setup") / "venv"
    subprocess.run([base_python(), "-m", "venv", "--without-pip", str(folder)], check=True)
    [site] = folder.glob("lib/python*/site-packages")
    (site / "pip").mkdir()
    (site / "pip" / "__main__.py").touch()
    return folder


def base_python() -> str:
    """Return the interpreter that set-up would run under."""
    return str(Path(sys.base_prefix) / "bin" / "python3")


def test_whole_environment_is_healthy(script: ModuleType, venv: Path):
    """An environment that was made here and has pip needs no rebuilding."""
    assert script.is_healthy(venv)


def test_missing_environment_is_not_healthy(script: ModuleType, tmp_path: Path):
    """Nothing there is not healthy, and not an error."""
    assert not script.is_healthy(tmp_path / "none")


def test_moved_environment_is_not_healthy(script: ModuleType, venv: Path):
    """After a move its scripts name the old place, so it must be built anew."""
    moved = venv.rename(venv.with_name("moved"))
    healthy = script.is_healthy(moved)
    moved.rename(venv)

    assert not healthy


def test_environment_without_its_python_is_not_healthy(script: ModuleType, venv: Path):
    """When the base interpreter went away, the environment must be built anew."""
    python = venv / "bin" / "python"
    target = python.readlink()
    python.unlink()
    python.symlink_to("/nowhere/python3")
    healthy = script.is_healthy(venv)
    python.unlink()
    python.symlink_to(target)

    assert not healthy


def test_key_follows_lock_and_project(script: ModuleType, tmp_path: Path):
    """A changed lock, project file or place asks for another set-up."""
    lock = tmp_path / "a.lock"
    lock.write_text("one")
    before = script.stamp_key(tmp_path, lock, b"project")
    other_project = script.stamp_key(tmp_path, lock, b"other")
    other_place = script.stamp_key(tmp_path / "b", lock, b"project")
    lock.write_text("two")
    other_lock = script.stamp_key(tmp_path, lock, b"project")

    assert len({before, other_project, other_place, other_lock}) == 4


def test_unsuitable_python_is_refused_by_name(tmp_path: Path):
    """A PYTHON that does not run is told, not replaced behind the person's back."""
    done = subprocess.run(
        ["sh", "scripts/python.sh"],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "PYTHON": str(tmp_path / "python9")},
        capture_output=True,
        text=True,
    )

    assert done.returncode == 1
    assert "python9" in done.stderr
