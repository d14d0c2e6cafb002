"""Where the measured table stands: the page of the matrix, and a part of the README."""

from __future__ import annotations

import re
from pathlib import Path

from tests.matrix.table import LEGEND

ROOT = Path(__file__).resolve().parents[2]
PAGE = Path(__file__).with_name("RESULTS.md")
README = ROOT / "README.md"
_PART = re.compile(
    r"(<!-- crash matrix: written by make crash-matrix -->\n).*?(<!-- end of the crash matrix -->)",
    re.S,
)


def write(page: str) -> None:
    """Keep what was measured."""
    PAGE.write_text(page, encoding="utf-8")
    README.write_text(with_table(README.read_text(encoding="utf-8"), page), encoding="utf-8")


def with_table(readme: str, page: str) -> str:
    """Put the table of a page into the README. Raises ValueError where that has no place for it."""
    if not _PART.search(readme):
        raise ValueError("the README has no place for the crash matrix")
    table = page[page.index("| fault ") :].split("\n\n")[0]
    return _PART.sub(lambda found: f"{found[1]}{LEGEND}\n{table}\n{found[2]}", readme)
