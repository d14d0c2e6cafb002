"""Carry out a Dockerfile's instructions in root folders, one for each stage."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from deploy.image.box import Box
from deploy.image.dockerfile import (
    EXPANDED,
    Instruction,
    Stage,
    Unsupported,
    command,
    expand,
    ignored_by,
    is_in_context,
    pairs,
)

CERTIFICATES = "/run/machine-certificates.pem"
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class StepFailed(Exception):
    """An instruction did not succeed."""


@dataclass(kw_only=True)
class Image:
    """A root folder and what the engine is told about running it."""

    root: Path
    environment: dict[str, str] = field(default_factory=lambda: {"PATH": SYSTEM_PATH})
    arguments: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    folder: str = "/"
    user: str = "0"
    entrypoint: list[str] = field(default_factory=list)
    cmd: list[str] = field(default_factory=list)
    healthcheck: list[str] = field(default_factory=list)
    timing: dict[str, str] = field(default_factory=dict)
    ports: list[str] = field(default_factory=list)
    volumes: list[str] = field(default_factory=list)
    stop_signal: str = "SIGTERM"


@dataclass(kw_only=True)
class Builder:
    """Builds the stages in order; `machine` is what this machine lends to RUN steps."""

    context: Path
    workshop: Path
    arguments: dict[str, str]
    told: Callable[[str], None]
    built: dict[str, Image] = field(default_factory=dict)

    def build(self, stages: list[Stage], base: Path) -> Image:
        """Return the last stage's image."""
        for number, stage in enumerate(stages):
            image = Image(root=self.workshop / f"stage-{number}")
            parent = self.built.get(stage.base)
            copy_tree(parent.root if parent else base, image.root)
            self.told(f"FROM {stage.base}")
            for step in stage.instructions:
                self.told(f"  {step}")
                self.carry_out(step, image)
            self.built[stage.name or str(number)] = image
        return image

    def carry_out(self, step: Instruction, image: Image) -> None:
        """Do one instruction."""
        rest = step.rest
        if step.word in EXPANDED:
            rest = expand(rest, image.arguments | image.environment)
        match step.word:
            case "RUN":
                self.run(step, image)
            case "COPY":
                self.copy(step, rest.split(), image)
            case "ARG":
                name, _, default = rest.partition("=")
                image.arguments[name] = self.arguments.get(name, default)
            case "ENV":
                image.environment |= pairs(rest)
            case "LABEL":
                image.labels |= pairs(rest)
            case "WORKDIR":
                image.folder = os.path.join(image.folder, rest)
                (image.root / image.folder.lstrip("/")).mkdir(parents=True, exist_ok=True)
            case _:
                note(step, rest, image)

    def run(self, step: Instruction, image: Image) -> None:
        """Run a command in the stage's root, on this machine's network, as the stage's user."""
        if step.flags or image.user != "0":
            raise Unsupported(f"line {step.line}: RUN with flags, or not as root")
        environment, mounts = lent_by_machine()
        box = Box(
            root=str(image.root),
            command=command(step.rest),
            environment=environment | image.arguments | image.environment,
            folder=image.folder,
            mounts=mounts,
        )
        if box.run():
            raise StepFailed(f"line {step.line}: {step}")
        (image.root / CERTIFICATES.lstrip("/")).unlink(missing_ok=True)

    def copy(self, step: Instruction, words: list[str], image: Image) -> None:
        """Copy from the context, less what .dockerignore hides, or from an earlier stage."""
        *sources, target = words
        if set(step.flags) - {"from"}:
            raise Unsupported(f"line {step.line}: COPY with {sorted(step.flags)}")
        goal = image.root / os.path.join(image.folder, target).lstrip("/")
        for source in sources:
            if "from" in step.flags:
                found = self.built[step.flags["from"]].root / source.lstrip("/")
                copy_tree(found, goal)
            else:
                self.copy_from_context(step, source, goal, into=target.endswith("/"))

    def copy_from_context(self, step: Instruction, source: str, goal: Path, *, into: bool) -> None:
        """Copy one file or folder that the builder would have been sent."""
        rules = ignored_by(self.context / ".dockerignore")
        found = self.context / source
        copied = 0
        for path in [found] if found.is_file() else sorted(found.rglob("*")):
            name = path.relative_to(self.context).as_posix()
            if path.is_dir() or not is_in_context(name, rules):
                continue
            place = goal / path.relative_to(found) if found.is_dir() else goal
            place = place / path.name if found.is_file() and into else place
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, place)
            os.chown(place, 0, 0)
            copied += 1
        if not copied:
            raise StepFailed(f"line {step.line}: {source} is not in the build context")


def note(step: Instruction, rest: str, image: Image) -> None:
    """Remember what an instruction says about running the image."""
    match step.word:
        case "USER":
            image.user = rest
        case "ENTRYPOINT":
            image.entrypoint = command(rest)
        case "CMD":
            image.cmd = command(rest)
        case "HEALTHCHECK":
            image.timing = step.flags
            image.healthcheck = command(rest.removeprefix("CMD").strip())
        case "EXPOSE":
            image.ports += rest.split()
        case "VOLUME":
            image.volumes += command(rest)
        case "STOPSIGNAL":
            image.stop_signal = rest
        case _:
            raise Unsupported(f"line {step.line}: {step.word}")


def copy_tree(source: Path, goal: Path) -> None:
    """Copy a folder with owners, modes and times."""
    goal.parent.mkdir(parents=True, exist_ok=True)
    copied = subprocess.run(["cp", "-a", "--reflink=auto", f"{source}/.", str(goal)], check=False)
    if copied.returncode:
        raise StepFailed(f"{source} could not be copied")


def lent_by_machine() -> tuple[dict[str, str], dict[str, str]]:
    """Return the environment and the files by which a step reaches the package index from here."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if name.upper() in ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
        or name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_TRUSTED_HOST")
    }
    mounts = {"/etc/resolv.conf": "/etc/resolv.conf", "/etc/hosts": "/etc/hosts"}
    certificates = os.environ.get("PIP_CERT") or os.environ.get("SSL_CERT_FILE")
    if certificates and Path(certificates).is_file():
        mounts[CERTIFICATES] = certificates
        environment["PIP_CERT"] = CERTIFICATES
    return environment, mounts
