"""The change log, the links and the lock files keep their form."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.tidy.sources import ROOT, part_of, python_files, repository_files, text_of

CHANGELOG = Path("CHANGELOG.md")
KINDS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
RELEASE = re.compile(r"^## \[?(\d+\.\d+\.\d+)\]? - (\d{4}-\d{2}-\d{2})$")
UNRELEASED = re.compile(r"^## \[?Unreleased\]?$")
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)(?: \"[^\"]*\")?\)|!\[[^\]]*\]\(([^)\s]+)\)")
PIN = re.compile(r"^([\w.-]+)==(\S+)")
CORE_DISTRIBUTIONS_MAX = 45
LOCKS = ("requirements.lock", "requirements-dev.lock", "requirements-build.lock")

PAPERS = [path for path in repository_files() if path.suffix == ".md"]


def test_changelog_is_kept(need):
    """The change log has the form of Keep a Changelog: releases, kinds, entries."""
    need((ROOT / CHANGELOG).exists(), "CHANGELOG.md is missing")
    lines = text_of(CHANGELOG).splitlines()
    releases = [line for line in lines if line.startswith("## ")]
    kinds = [line.removeprefix("### ") for line in lines if line.startswith("### ")]

    assert lines[0] == "# Changelog"
    assert [line for line in releases if not (UNRELEASED.match(line) or RELEASE.match(line))] == []
    assert UNRELEASED.match(releases[0])
    assert set(kinds) - KINDS == set()


def test_changelog_releases_descend(need):
    """The newest release stands first, and dates agree with versions."""
    need((ROOT / CHANGELOG).exists(), "CHANGELOG.md is missing")
    found = [RELEASE.match(line) for line in text_of(CHANGELOG).splitlines()]
    releases = [
        (tuple(map(int, match[1].split("."))), match[2]) for match in found if match is not None
    ]

    assert releases == sorted(releases, reverse=True)


def test_changelog_entries_stand_under_a_kind(need):
    """Every entry says whether something was added, changed, fixed or removed."""
    need((ROOT / CHANGELOG).exists(), "CHANGELOG.md is missing")
    kind, loose = "", []
    for number, line in enumerate(text_of(CHANGELOG).splitlines(), start=1):
        if line.startswith("## "):
            kind = ""
        elif line.startswith("### "):
            kind = line
        elif line.startswith(("- ", "* ")) and not kind:
            loose.append(f"{CHANGELOG}:{number}: {line}")

    assert loose == []


@pytest.mark.parametrize("paper", PAPERS, ids=str)
def test_links_resolve(paper: Path):
    """A relative link leads to a file, and its anchor to a heading."""
    broken = [target for target in relative_links(paper) if not resolves(paper, target)]

    assert broken == []


@pytest.mark.parametrize("lock", LOCKS)
def test_lock_pins_everything_with_hashes(lock: str):
    """Each package in a lock has one version and at least one hash, and no address."""
    entries = [entry for entry in re.split(r"\n(?=\w)", text_of(Path(lock))) if entry.strip()]
    loose = [
        entry.splitlines()[0]
        for entry in entries
        if not PIN.match(entry) or "--hash=sha256:" not in entry
    ]

    assert loose == []
    assert "://" not in text_of(Path(lock))
    assert "--index" not in text_of(Path(lock))


def test_locks_agree():
    """Tests run against the very versions that the image ships."""
    runtime, tests, build = (pins(lock) for lock in LOCKS)

    assert {name: tests.get(name) for name in runtime} == runtime
    assert {name: tests.get(name) for name in build} == build


def test_runtime_lock_covers_the_declared_dependencies():
    """What pyproject.toml asks for is in the lock."""
    project = tomllib.loads(text_of(Path("pyproject.toml")))["project"]
    wanted = list(project["dependencies"])
    for name in ("otlp", "mcp", "fast"):
        wanted += project["optional-dependencies"][name]
    names = {re.split(r"[^\w.-]", line)[0].lower() for line in wanted}

    assert names - set(pins("requirements.lock")) == set()


def test_the_core_install_stays_small():
    """Without extras at most 45 distributions come along, and none of the MCP SDK."""
    wanted = core_distributions()

    assert 20 < len(wanted) <= CORE_DISTRIBUTIONS_MAX
    assert wanted & {"mcp", "mcp-types", "httpx2"} == set()


def core_distributions() -> set[str]:
    """Return what of the runtime lock the dependencies without extras lead to."""
    needed_by = {
        match[1].lower(): set(re.findall(r"^ +# +(?:via )?([\w.-]+)", entry, re.MULTILINE))
        for entry in re.split(r"\n(?=\w)", text_of(Path("requirements.lock")))
        if (match := PIN.match(entry)) is not None
    }
    project = tomllib.loads(text_of(Path("pyproject.toml")))["project"]
    found = {re.split(r"[^\w.-]", line)[0].lower() for line in project["dependencies"]}
    while more := {name for name, parents in needed_by.items() if parents & found} - found:
        found |= more
    return found


def pins(lock: str) -> dict[str, str]:
    """Return the versions of a lock file."""
    found = [PIN.match(line) for line in text_of(Path(lock)).splitlines()]
    return {match[1].lower(): match[2] for match in found if match is not None}


def relative_links(paper: Path) -> list[str]:
    """Return the link targets of a page that stay in the repository; code is no link."""
    prose = re.sub(r"```.*?```|`[^`\n]*`", "", text_of(paper), flags=re.DOTALL)
    targets = [match[1] or match[2] for match in LINK.finditer(prose)]
    return [target for target in targets if not re.match(r"[a-z]+:", target)]


def resolves(paper: Path, target: str) -> bool:
    """Say whether the file is there, and the heading in it."""
    name, _, anchor = unquote(target).partition("#")
    page = (ROOT / paper.parent / name).resolve() if name else ROOT / paper
    if not page.exists():
        return False
    return not anchor or page.suffix != ".md" or anchor in anchors(page)


def anchors(page: Path) -> set[str]:
    """Return the anchors that the usual renderers make of a page's headings."""
    headings = re.findall(r"^#+\s+(.*?)\s*$", page.read_text(encoding="utf-8"), re.MULTILINE)
    plain = [re.sub(r"[^\w\s-]", "", heading.lower()) for heading in headings]
    return {re.sub(r"\s", "-", heading) for heading in plain}


def test_the_map_shows_every_room():
    """Who looks for a part of the worker finds it in CONTRIBUTING.md."""
    told = set(re.findall(r"[\w*]+(?=\.py|/)", (ROOT / "CONTRIBUTING.md").read_text("utf-8")))
    rooms = {part_of(path) for path in python_files("worker")} - {"__init__", "__main__"}
    sections = (
        {room for room in rooms if room.endswith("settings")} if "*settings" in told else set()
    )

    assert rooms - sections - told == set()


def test_every_decision_is_listed():
    """The list of decisions has a line for each, by its number."""
    folder = ROOT / "docs" / "decisions"
    listed = (folder / "README.md").read_text("utf-8")
    notes = sorted(path.name for path in folder.glob("0*.md"))

    assert [name for name in notes if f"[{name[:4]}]({name})" not in listed] == []
    assert len({name[:4] for name in notes}) == len(notes)
