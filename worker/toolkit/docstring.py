"""What a docstring tells a model: the first paragraph, and the lines of its Args section."""

from __future__ import annotations

import re

_SECTION = re.compile(r"^(args|arguments|parameters|参数)\s*[:\uff1a]\s*$", re.IGNORECASE)
_ENTRY = re.compile(r"^\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*[:\uff1a]\s*(.*)$")


def summary(doc: str) -> str:
    """Return the first paragraph on one line."""
    first = doc.strip().split("\n\n")[0]
    lines = [line.strip() for line in first.splitlines()]
    kept = []
    for line in lines:
        if _SECTION.match(line):
            break
        kept.append(line)
    return " ".join(filter(None, kept))


def parameter_docs(doc: str) -> dict[str, str]:
    """Return the description of each parameter in a Google-style Args section."""
    found: dict[str, str] = {}
    current = indent = None
    inside = False
    for line in doc.expandtabs().splitlines():
        depth = len(line) - len(line.lstrip())
        if _SECTION.match(line.strip()):
            inside, current, indent = True, None, None
            continue
        if not inside or not line.strip():
            continue
        if depth == 0:
            inside = False
            continue
        indent = depth if indent is None else indent
        entry = _ENTRY.match(line.strip()) if depth <= indent else None
        if entry:
            current = entry[1]
            found[current] = entry[2].strip()
        elif current:
            found[current] = f"{found[current]} {line.strip()}".strip()
    return found
