"""The Dockerfile says what operators rely on, and its steps work."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.image.builder import Image, note
from deploy.image.dockerfile import (
    Unsupported,
    command,
    expand,
    ignored_by,
    instructions,
    is_in_context,
    pairs,
    read,
)

ROOT = Path(__file__).resolve().parents[2]
STAGES = read(ROOT / "Dockerfile", {})
FINAL = STAGES[-1].instructions


@pytest.fixture
def image() -> Image:
    """What the last stage tells an engine."""
    image = Image(root=Path("/"))
    for step in FINAL:
        if step.word not in ("RUN", "COPY", "ARG", "ENV", "LABEL", "WORKDIR"):
            note(step, step.rest, image)
    return image


def test_stages_share_one_base():
    """Both stages stand on the same base, so that the environment fits where it is copied."""
    assert len({stage.base for stage in STAGES}) == 1
    assert len(STAGES) == 2


def test_worker_is_process_one(image: Image):
    """The entrypoint is in exec form: a stop signal reaches the worker, not a shell."""
    assert image.entrypoint == ["loopworker"]
    assert image.cmd == ["run"]
    assert image.stop_signal == "SIGTERM"


def test_user_is_numeric(image: Image):
    """Kubernetes can see that the user is not root."""
    user, _, group = image.user.partition(":")

    assert user.isdigit() and int(user) > 0
    assert group.isdigit() and int(group) > 0


def test_health_is_asked_through_the_command_line(image: Image):
    """The probe needs no curl in the image."""
    assert image.healthcheck == ["loopworker", "health"]


def test_tools_are_copied_last():
    """A new tool changes one small layer."""
    files = [step for step in FINAL if step.word in ("COPY", "RUN")]

    assert files[-1].rest.split()[0] == "tools/"


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("worker/core/loop.py", True),
        ("worker/queues/sql/claim.sql", True),
        ("tools/quote.py", True),
        ("requirements.lock", True),
        ("worker/core/__pycache__/loop.cpython-311.pyc", False),
        (".git/config", False),
        (".env", False),
        ("tests/conftest.py", False),
    ],
)
def test_context_holds_the_product_only(name: str, kept: bool):
    """The builder is sent what it needs, and no secret or cache of the person who builds."""
    assert kept == is_in_context(name, ignored_by(ROOT / ".dockerignore"))


def test_reader_joins_lines_and_drops_comments():
    """A continued instruction is one, with the comments inside it gone."""
    found = instructions("# syntax\nRUN one \\\n  # why\n  && two\n\nUSER 1\n")

    assert [(step.line, step.word) for step in found] == [(2, "RUN"), (6, "USER")]
    assert found[0].rest.split() == ["one", "&&", "two"]


def test_reader_refuses_what_it_would_not_carry_out():
    """An unknown instruction is an error, never a step that is left out."""
    with pytest.raises(Unsupported, match="ONBUILD"):
        instructions("ONBUILD RUN true")


def test_reader_expands_and_splits():
    """Variables, defaults, quoted pairs and both forms of a command are read as an engine does."""
    assert expand("${A}-$B-${C:-c}", {"A": "a", "B": "b"}) == "a-b-c"
    assert pairs('A="one two" B=3') == {"A": "one two", "B": "3"}
    assert command('["a", "b"]') == ["a", "b"]
    assert command("a b") == ["/bin/sh", "-c", "a b"]


@pytest.mark.system
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("proof", ["check", "fresh"])
def test_proof_succeeds(proof: str, need):
    """The image answers a task and drains; a fresh machine runs the demo with one command."""
    need(os.geteuid() == 0, "making a root needs root")
    need(shutil.which("mmdebstrap"), "mmdebstrap is not installed")
    done = subprocess.run(
        [sys.executable, "-m", f"deploy.image.{proof}"], cwd=ROOT, capture_output=True, text=True
    )

    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
