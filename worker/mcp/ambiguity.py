"""Can an engine that backtracks run away on this pattern?

Our own check of arguments takes linear time. But a schema travels on: model servers compile it into
grammars with engines of their own, and the SDKs of clients run it on backtracking ones. A pattern
is catastrophic when one of its loops can read the same text in two ways (`(a+)+`, `(a|a)*`): then
the ways double with each turn. That is decided exactly here, on the automaton whose states are the
positions of the pattern; bounded repetitions are taken as loops, which errs towards refusing.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from worker.mcp.graphs import TooMuch, components

PATTERN_CHARS_MAX = 1000
POSITIONS_MAX = 1000
PAIRS_MAX = 30_000
_EXPANDED_MAX = 3  # `x{1,3}` is three times x at most; `x{1,60}` is a loop

_BEYOND = 1 << 128  # stands for every character that is not ASCII
_ALL = (1 << 129) - 1
# What ECMA has and Python's parser does not know.
_TRANSLATED = (
    (re.compile(r"\(\?<(?![=!])"), "(?P<"),
    (re.compile(r"\\[pP]\{[^}]*\}"), r"[^\\x00-\\x7f]"),
    (re.compile(r"\\u\{[0-9a-fA-F]*\}"), "\u00ff"),
    (re.compile(r"\\c[A-Za-z]"), "\x01"),
)
# For patterns that cannot be read at all: a quantified group that ends in a quantifier.
_NESTED = re.compile(r"[+*}]\??\)(?:[+*]|\{\d+,)")


def danger_in(pattern: str) -> str | None:
    """Say what is dangerous about a pattern; None when nothing is."""
    if len(pattern) > PATTERN_CHARS_MAX:
        return f"is longer than {PATTERN_CHARS_MAX} characters"
    tree = _read(pattern)
    if tree is None:
        return "repeats a repetition" if _NESTED.search(pattern) else None
    automaton = _Automaton()
    try:
        automaton.of(tree)
        if automaton.is_ambiguous():
            return "can take exponential time (a loop reads the same text in two ways)"
    except TooMuch:
        return "is too large to judge"
    except _BackReference:
        return "has a back-reference"
    return None


class _BackReference(Exception):
    """Backtracking is all that could match it."""


def _read(pattern: str) -> Any:
    for known, stand_in in _TRANSLATED:
        pattern = known.sub(stand_in, pattern)
    pattern = "".join(_with_branches_apart(pattern))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return re._parser.parse(pattern)  # type: ignore[attr-defined]
    except (re.error, RecursionError, OverflowError, ValueError):
        return None


def _with_branches_apart(pattern: str) -> Iterator[str]:
    """Begin each branch with a group of its own, or Python's parser would merge `\\w|\\d`."""
    in_set = escaped = False
    for character in pattern:
        yield character
        if escaped:
            escaped = False
        elif character == "\\":
            escaped = True
        elif in_set:
            in_set = character != "]"
        elif character == "[":
            in_set = True
        elif character == "|":
            yield "()"


@dataclass(frozen=True, slots=True)
class _Piece:
    """A part of the pattern: positions it may begin and end with, and whether it may be empty."""

    first: tuple[int, ...] = ()
    last: tuple[int, ...] = ()
    empty: bool = True


_EMPTY = _Piece()


class _Automaton:
    """The positions of a pattern, and how often each follows each."""

    def __init__(self) -> None:
        self._masks: list[int] = []
        self._loops = 0
        self._edges: Counter[tuple[int, int]] = Counter()

    def of(self, items: Any) -> _Piece:
        """Add a sequence of parsed items."""
        whole = _EMPTY
        for operation, argument in items:
            whole = self._join(whole, self._item(str(operation), argument))
        return whole

    def is_ambiguous(self) -> bool:
        """Say whether two different paths from a position back to itself read the same text."""
        after: dict[int, list[int]] = {}
        for start, end in self._edges:
            after.setdefault(start, []).append(end)
        positions = range(len(self._masks))
        home = {
            position: index
            for index, group in enumerate(
                components(positions, lambda p: after.get(p, ()), edges_max=PAIRS_MAX)
            )
            for position in group
        }
        if any(count > 1 and home[a] == home[b] for (a, b), count in self._edges.items()):
            return True

        def pairs_after(pair: tuple[int, int]) -> Iterator[tuple[int, int]]:
            for one in after.get(pair[0], ()):
                for other in after.get(pair[1], ()):
                    if self._masks[one] & self._masks[other]:
                        yield (one, other)

        diagonal = [(position, position) for position in positions]
        for group in components(diagonal, pairs_after, edges_max=PAIRS_MAX):
            if any(a == b for a, b in group) and any(a != b for a, b in group):
                return True
        return False

    def _join(self, left: _Piece, right: _Piece) -> _Piece:
        self._follow(left.last, right.first)
        return _Piece(
            left.first + right.first if left.empty else left.first,
            left.last + right.last if right.empty else right.last,
            left.empty and right.empty,
        )

    def _follow(self, before: tuple[int, ...], after: tuple[int, ...]) -> None:
        if len(self._edges) + len(before) * len(after) > PAIRS_MAX:
            raise TooMuch
        for start in before:
            for end in after:
                self._edges[start, end] += 1

    def _item(self, operation: str, argument: Any) -> _Piece:
        match operation:
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                return self._repeat(*argument)
            case "SUBPATTERN":
                return self.of(argument[3])
            case "ATOMIC_GROUP":
                return self.of(argument)
            case "BRANCH":
                return self._branch([self.of(branch) for branch in argument[1]])
            case "ASSERT" | "ASSERT_NOT":
                self.of(argument[1])  # what it looks at is matched by itself
                return _EMPTY
            case "AT":
                return _EMPTY
            case "GROUPREF" | "GROUPREF_EXISTS" | "GROUPREF_IGNORE":
                raise _BackReference
        return self._position(_mask(operation, argument))

    def _branch(self, pieces: list[_Piece]) -> _Piece:
        first = tuple(position for piece in pieces for position in piece.first)
        last = tuple(position for piece in pieces for position in piece.last)
        return _Piece(first, last, any(piece.empty for piece in pieces))

    def _repeat(self, least: int, most: int, body: Any) -> _Piece:
        least, most, loops = int(least), int(most), self._loops
        piece = self.of(body)
        # A fixed number of turns is no loop, unless each turn may have any length.
        is_fixed = least == most and self._loops == loops
        if not is_fixed and most > _EXPANDED_MAX:
            self._loops += 1
            self._follow(piece.last, piece.first)
            return _Piece(piece.first, piece.last, piece.empty or least == 0)
        whole = piece if least else _Piece(piece.first, piece.last, True)
        for turn in range(1, most):
            piece = self.of(body)
            if turn >= least:
                piece = _Piece(piece.first, piece.last, True)
            whole = self._join(whole, piece)
        return whole if most else _EMPTY

    def _position(self, mask: int) -> _Piece:
        if len(self._masks) >= POSITIONS_MAX:
            raise TooMuch
        self._masks.append(mask)
        here = (len(self._masks) - 1,)
        return _Piece(here, here, False)


# --- characters ---------------------------------------------------------------------------------


def _mask(operation: str, argument: Any) -> int:
    match operation:
        case "LITERAL":
            return _bit(argument)
        case "NOT_LITERAL":
            return _ALL ^ (_bit(argument) & ~_BEYOND)
        case "CATEGORY":
            return _category(str(argument))
        case "IN":
            return _set(argument)
    return _ALL  # ANY, and whatever a later Python adds


def _set(items: Any) -> int:
    mask, negated = 0, False
    for operation, argument in items:
        if str(operation) == "NEGATE":
            negated = True
        elif str(operation) == "RANGE":
            low, high = argument
            for code in range(low, min(high, 127) + 1):
                mask |= 1 << code
            if high > 127:
                mask |= _BEYOND
        else:
            mask |= _mask(str(operation), argument)
    # "Not é" is still most of what lies beyond ASCII.
    return _ALL ^ (mask & ~_BEYOND) if negated else mask


def _bit(code: int) -> int:
    return 1 << code if code < 128 else _BEYOND


def _where(test: str) -> int:
    return sum(1 << code for code in range(128) if re.match(test, chr(code), re.ASCII))


_CATEGORIES = {
    "CATEGORY_DIGIT": _where(r"\d"),
    "CATEGORY_SPACE": _where(r"\s"),
    "CATEGORY_WORD": _where(r"\w"),
}


def _category(name: str) -> int:
    known = _CATEGORIES.get(name)
    if known is not None:
        return known
    positive = _CATEGORIES.get(name.replace("_NOT_", "_"))
    return _ALL if positive is None else _ALL ^ positive
