"""Read a Dockerfile into stages of instructions; refuse what we would not carry out faithfully."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path

KNOWN = {
    *("ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "HEALTHCHECK", "LABEL", "RUN"),
    *("STOPSIGNAL", "USER", "VOLUME", "WORKDIR"),
}
# Where the builder itself replaces variables; RUN leaves that to its shell.
EXPANDED = KNOWN - {"RUN", "CMD", "ENTRYPOINT", "HEALTHCHECK"}
VARIABLE = re.compile(r"\$(?:\{(\w+)(?::-([^}]*))?\}|(\w+))")


class Unsupported(Exception):
    """The Dockerfile uses something that this reader does not carry out."""


@dataclass(frozen=True, kw_only=True)
class Instruction:
    """One instruction: its line, its word, its flags, and the rest as written."""

    line: int
    word: str
    flags: dict[str, str]
    rest: str

    def __str__(self) -> str:
        """Show the beginning, on one line."""
        text = " ".join(self.rest.split())
        return f"{self.word} {text[:90]}{'…' if len(text) > 90 else ''}"


@dataclass(kw_only=True)
class Stage:
    """The instructions between one FROM and the next."""

    base: str
    name: str
    instructions: list[Instruction] = field(default_factory=list)


def read(path: Path, arguments: dict[str, str]) -> list[Stage]:
    """Return the stages of a Dockerfile; `arguments` are those of --build-arg."""
    stages: list[Stage] = []
    globals_: dict[str, str] = {}
    for found in instructions(path.read_text(encoding="utf-8")):
        if found.word == "FROM":
            words = expand(found.rest, globals_).split()
            name = words[2] if len(words) == 3 and words[1].upper() == "AS" else ""
            stages.append(Stage(base=words[0], name=name))
        elif stages:
            stages[-1].instructions.append(found)
        elif found.word == "ARG":
            name, _, default = found.rest.partition("=")
            globals_[name] = arguments.get(name, default)
        else:
            raise Unsupported(f"line {found.line}: {found.word} before the first FROM")
    return stages


def instructions(text: str) -> list[Instruction]:
    """Split a Dockerfile into instructions: continuation lines joined, comments dropped."""
    found: list[Instruction] = []
    lines = enumerate(text.splitlines(), start=1)
    for number, line in lines:
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        whole = line
        while whole.rstrip().endswith("\\"):
            _, following = next(lines)
            if following.strip() and not following.lstrip().startswith("#"):
                whole = whole.rstrip()[:-1] + following
        found.append(instruction(number, whole.strip()))
    return found


def instruction(number: int, text: str) -> Instruction:
    """Take one instruction apart."""
    word, _, rest = text.partition(" ")
    word, rest, flags = word.upper(), rest.strip(), {}
    if word not in KNOWN:
        raise Unsupported(f"line {number}: {word}")
    while match := re.match(r"--([\w-]+)=(\S+)\s+", rest):
        flags[match[1]] = match[2]
        rest = rest[match.end() :]
    return Instruction(line=number, word=word, flags=flags, rest=rest)


def expand(text: str, variables: dict[str, str]) -> str:
    """Replace $name, ${name} and ${name:-default}."""

    def value(match: re.Match[str]) -> str:
        return variables.get(match[1] or match[3]) or match[2] or ""

    return VARIABLE.sub(value, text)


def pairs(text: str) -> dict[str, str]:
    """Read the name=value pairs of ENV and LABEL."""
    words = shlex.split(text.replace("\n", " "))
    if not all("=" in word for word in words):
        raise Unsupported(f"ENV or LABEL without '=': {text}")
    return dict(word.split("=", 1) for word in words)


def command(text: str) -> list[str]:
    """Read the exec form, or wrap the shell form as the builder does."""
    try:
        words = json.loads(text)
    except ValueError:
        return ["/bin/sh", "-c", text]
    return [str(word) for word in words]


def ignored_by(path: Path) -> list[tuple[bool, re.Pattern[str]]]:
    """Read .dockerignore: (kept?, pattern) in order; the last match decides."""
    rules = []
    for line in path.read_text(encoding="utf-8").splitlines():
        line = line.strip()
        if line and not line.startswith("#"):
            kept = line.startswith("!")
            rules.append((kept, _pattern(line.lstrip("!").strip("/"))))
    return rules


def _pattern(glob: str) -> re.Pattern[str]:
    text = re.escape(glob).replace(r"\*\*/", "(?:.*/)?").replace(r"\*", "[^/]*")
    # What matches a folder matches all below it.
    return re.compile(text + "(?:/.*)?")


def is_in_context(name: str, rules: list[tuple[bool, re.Pattern[str]]]) -> bool:
    """Say whether the builder would be sent this file."""
    verdicts = [kept for kept, pattern in rules if pattern.fullmatch(name)]
    return verdicts[-1] if verdicts else True
