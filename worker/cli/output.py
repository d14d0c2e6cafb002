"""What commands print: plain lines, JSON, tables, and colour only where a person looks."""

from __future__ import annotations

import json
import os
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


class Paint:
    """Colours for one stream: none when it is no terminal, or NO_COLOR is set."""

    def __init__(self, stream: TextIO) -> None:
        self.is_on = stream.isatty() and not os.environ.get("NO_COLOR")

    def __call__(self, text: str, colour: str) -> str:
        """Colour a text."""
        return f"\033[{_CODES[colour]}m{text}\033[0m" if self.is_on else text


def print_json(value: Any) -> None:
    """Print a value as JSON that a person can read and a program can parse."""
    print(json_text(value))


def json_text(value: Any) -> str:
    """Write a value as `print_json` prints it."""
    return json.dumps(value, ensure_ascii=False, indent=2, default=str)


def print_table(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print columns as wide as their widest cell; the last one may be as long as it likes."""
    cells = [list(heads), *([one_line(cell) for cell in row] for row in rows)]
    widths = [max(width(row[i]) for row in cells) for i in range(len(heads))]
    for row in cells:
        padded = [cell + " " * (widths[i] - width(cell)) for i, cell in enumerate(row[:-1])]
        print("  ".join([*padded, row[-1]]).rstrip())


def tell(text: str) -> None:
    """Write a line for the person, beside the output that a program may read."""
    if not sys.stderr.closed:  # a tool may have closed it
        print(text, file=sys.stderr, flush=True)


def one_line(value: Any) -> str:
    """Write a value within one line, without control characters that could move the cursor."""
    text = "" if value is None else str(value)
    return "".join(char if char.isprintable() else " " for char in text)


def width(text: str) -> int:
    """Count the columns a text takes: Chinese characters take two."""
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)
