"""The rows of what tools told: which numbers stand together, and whose they are.

A result that is JSON says more than its figures: a list has so many members, the prices of three
plans are a column with a sum, and 13 degrees are those of Shanghai. Other texts have no rows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from worker.core import relations

_CHARACTERS_MAX, _NODES_MAX, _DEPTH_MAX = 20_000, 1000, 8
_COLUMN_MAX, _ROWS_MAX = 40, 40
_DECODER = json.JSONDecoder()
_OPENING = re.compile(r"(?:^|[\n:\uff1a>])\s*[{\[]")  # after a note on its age, if it has one
_NAME = re.compile(r"(?=.*[A-Za-z\u3400-\u9fff])[^\n{}\[\]]{2,40}$")
_NUMBER = re.compile(r"\s*[-+]?[0-9][0-9,]{0,20}(?:\.[0-9]{1,10})?\s*$")
_NO_NAMES = re.compile(
    r"[0-9]{4}-[0-9]{2}|[0-9]{1,2}:[0-9]{2}|^[A-Z]{3}$|^(?:ok|success|active|open|closed)$"
)
_IN_NAME = re.compile(r"([0-9]{1,4})_?(?:(m|min|h|d|days?|hours?|minutes?)(?:$|_)|([日天]))")
_DAY = re.compile(r"(?:mon|tue|wed|thu|fri|sat|sun|周|星期|[0-9]{4}-[0-9]{2}-[0-9]{2}$)")
_BEFORE = re.compile(
    r"(?:prev|previous|last_(?:week|month|year|close)|yesterday|open$|昨|上期|去年)"
)
_AFTER = re.compile(r"(?:close|last$|current|price|now|value|今|现价|本期)")
_HOUR = re.compile(r"[0-2]?[0-9]:00$")
_YEAR = re.compile(r"(?:19|20)[0-9]{2}年?$")
_PERIODS = {"m": 60.0, "h": 3600.0, "d": 86_400.0}


@dataclass(frozen=True, slots=True)
class Row:
    """One record: the names in it, and its numbers."""

    names: frozenset[str]
    numbers: frozenset[float]


@dataclass(slots=True)
class Rows:
    """What the structure of all results tells."""

    rows: list[Row] = field(default_factory=list)
    columns: dict[str, list[float]] = field(default_factory=dict)  # by the name of the field
    lengths: set[int] = field(default_factory=set)  # of lists and maps
    quarters: set[int] = field(default_factory=set)
    periods: set[float] = field(default_factory=set)  # seconds that a name holds: errors_5m
    wholes: list[tuple[list[float], float]] = field(default_factory=list)  # parts and their sum
    rests: set[float] = field(default_factory=set)  # seconds of the days a week has besides
    records: list[list[float]] = field(default_factory=list)  # the numbers of each record
    list_lengths: set[int] = field(default_factory=set)
    signed: set[float] = field(default_factory=set)
    _members: dict[str, list[str]] = field(default_factory=dict)  # of lists of names, by field
    _nodes: int = 0

    def take(self, text: str) -> None:
        """Add a result."""
        opening = _OPENING.search(text[:_CHARACTERS_MAX])
        if opening is None or len(text) > _CHARACTERS_MAX:
            return
        try:
            told, _ = _DECODER.raw_decode(text, opening.end() - 1)
        except (ValueError, RecursionError):
            return
        self._walk(told, "", 0)

    @property
    def counts(self) -> set[int]:
        """How many there are of something: members of a list, or records of one form."""
        found = self.lengths | {len(values) for values in self.columns.values()}
        for members in self._members.values():
            found |= {len(members), len(set(members))}
        return found

    def _walk(self, told: Any, name: str, depth: int) -> None:
        self._nodes += 1
        if depth > _DEPTH_MAX or self._nodes > _NODES_MAX:
            return
        if isinstance(told, list):
            self._take_length(told, told)
            self.list_lengths.add(len(told))
            self._take_dated(told)
            if told and all(isinstance(each, str) for each in told):
                self._members.setdefault(name, []).extend(told[:_COLUMN_MAX])
            for each in told:
                self._leaf(each, name)
                self._walk(each, name, depth + 1)
        elif isinstance(told, dict):
            self._record(told, name, depth)
            for key, each in told.items():
                self._take_name(str(key), each)
                self._leaf(each, str(key))
                self._walk(each, str(key), depth + 1)

    def _leaf(self, told: Any, name: str) -> None:
        number = _number_of(told)
        if number is not None:
            self.signed.add(number)
            column = self.columns.setdefault(name, [])
            if len(column) < _COLUMN_MAX:
                column.append(number)

    def _take_name(self, name: str, told: Any) -> None:
        for number, unit, days in _IN_NAME.findall(name):
            self.periods.add(float(number) * _PERIODS["d" if days else unit[0]])
        if name == "quarter" and isinstance(told, int):
            self.quarters.add(told)

    def _take_length(self, told: list[Any] | dict[Any, Any] | tuple[()], names: list[Any]) -> None:
        if told:
            self.lengths.add(len(told))
        words = [each.lower() for each in names if isinstance(each, str)]
        days = sum(_DAY.match(word) is not None for word in words)
        if days > 1:
            self.periods.add(86_400.0 * days)
            self.rests.add(86_400.0 * (7 - days))
        for form, seconds in ((_HOUR, 3600.0), (_YEAR, 31_557_600.0)):
            count = sum(form.match(word) is not None for word in words)
            if count > 1:
                self.periods.add(seconds * count)
        years = [int(word[:4]) for word in words if _YEAR.match(word)]
        if len(years) > 1:
            self.periods.add(31_557_600.0 * (max(years) - min(years)))

    def _take_dated(self, told: list[Any]) -> None:
        """Count the days of records that are each of one: {"日": "周一"}."""
        days = sum(
            isinstance(each, dict)
            and any(isinstance(n, str) and _DAY.match(n.lower()) for n in each.values())
            for each in told
        )
        if days > 1:
            self.periods.add(86_400.0 * days)

    def _record(self, told: dict[Any, Any], name: str, depth: int) -> None:
        numbers = [n for n in map(_number_of, told.values()) if n is not None]
        self._take_length((), list(told))
        if self._take_series(told, name):
            pass  # one day is no share of another
        elif len(numbers) > 1 and len(self.records) < _ROWS_MAX:
            self.records.append(numbers)
            self._take_wholes(told, numbers)
        if len(numbers) == len(told) > 1:  # mon, tue, wed: a column by itself
            self._take_length(told, list(told))
            if len(told) > 2 or name:
                self.columns[f"{name}/{len(self.columns)}"] = numbers[:_COLUMN_MAX]
            if name:
                for key, number in zip(told, numbers, strict=True):
                    self._add(frozenset({str(key)}), frozenset({number}))
        elif len(told) > 1 and all(isinstance(each, dict) for each in told.values()):
            for key, each in told.items():
                self._add(_names(each) | {str(key)}, frozenset(_numbers(each)))
            return
        else:
            self._take_changes(told)
        if depth < 3 and not (len(numbers) == len(told) > 1):
            names = _names(told)
            if names:
                self._add(names, frozenset(_numbers(told)))

    def _take_wholes(self, told: dict[Any, Any], numbers: list[float]) -> None:
        """Add parts with their sum: told, or of fields whose names end alike (一级, 二级)."""
        self.wholes += [(list(parts), whole) for parts, whole in relations.wholes(numbers)]
        alike: dict[str, list[float]] = {}
        for key, each in told.items():
            number, last = _number_of(each), str(key)[-1:]
            if number is not None and not (last.isascii() and last.isalnum()):
                alike.setdefault(last, []).append(number)
        self.wholes += [(parts, sum(parts)) for parts in alike.values() if len(parts) > 2]

    def _take_series(self, told: dict[Any, Any], name: str) -> bool:
        """Add mon, tue, wed as a column, whatever else the record tells of them."""
        days = [_number_of(each) for key, each in told.items() if _DAY.match(str(key).lower())]
        numbers = [n for n in days if n is not None]
        if len(numbers) < 2:
            return False
        if len(numbers) < len(told):
            self.columns[f"{name}/{len(self.columns)}"] = numbers[:_COLUMN_MAX]
        return True

    def _take_changes(self, told: dict[Any, Any]) -> None:
        """By how much, and by how many percent, a number differs from the one before it."""
        before = [n for key, each in told.items() if (n := _number_of(each)) and _BEFORE.match(key)]
        after = [n for key, each in told.items() if (n := _number_of(each)) and _AFTER.match(key)]
        if len(before) == len(after) == 1:
            self.signed |= {after[0] - before[0], 100 * (after[0] - before[0]) / before[0]}

    def _add(self, names: frozenset[str], numbers: frozenset[float]) -> None:
        if len(self.rows) < _ROWS_MAX:
            self.rows.append(Row(names, numbers))


def _names(told: dict[Any, Any]) -> frozenset[str]:
    return frozenset(
        each.strip()
        for each in told.values()
        if isinstance(each, str) and _NAME.match(each) and not _NO_NAMES.search(each)
    )


def _numbers(told: Any, depth: int = 0) -> Iterator[float]:
    number = _number_of(told)
    if number is not None:
        yield number
    elif isinstance(told, str):
        for found in re.findall(r"[0-9]+(?:\.[0-9]+)?", told[:200]):
            yield float(found)
    elif isinstance(told, dict | list) and depth < _DEPTH_MAX:
        inside: Iterable[Any] = told.values() if isinstance(told, dict) else told
        for each in inside:
            yield from _numbers(each, depth + 1)


def _number_of(told: Any) -> float | None:
    if isinstance(told, bool):
        return None
    if isinstance(told, int | float):
        return float(told) if abs(told) < 1e18 else None
    if isinstance(told, str) and _NUMBER.match(told):
        return float(told.replace(",", ""))
    return None
