"""Metric families that cannot hurt: bounded labels, cached children, no bad values, no exceptions.

prometheus_client raises on a negative increment, keeps a NaN for ever, and fails every later scrape
after one lone surrogate in a label. All of that is stopped here, and counted.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from math import inf
from typing import Any

from worker.telemetry.catalogue import NAMES_MAX, OTHER, UNKNOWN, Metric
from worker.telemetry.redact import Redactor

LABEL_CHARACTERS_MAX = 100
Key = tuple[str, ...]


class Labels:
    """Which label values exist: closed sets from the catalogue, and names up to a bound."""

    def __init__(self, redactor: Redactor, on_overflow: Callable[[], None]) -> None:
        self._redactor = redactor
        self._on_overflow = on_overflow
        self._names: dict[str, dict[str, str]] = {label: {} for label in NAMES_MAX}
        self._sealed: set[str] = set()

    def know(self, label: str, names: Iterable[str]) -> list[str]:
        """Admit the names that are known at the start; returns them as they will be shown."""
        return [self._admit(label, name, True) for name in names]

    def seal(self, label: str) -> None:
        """Admit no further names: from now on they come from outside."""
        self._sealed.add(label)

    def resolve(self, metric: Metric, key: Key) -> Key:
        """Return the values under which a measurement is counted."""
        return tuple(
            self._value(metric, label, value)
            for label, value in zip(metric.labels, key, strict=True)
        )

    def _value(self, metric: Metric, label: str, value: str) -> str:
        allowed = metric.allowed(label)
        if allowed is None:
            return self._admit(label, value, label not in self._sealed)
        if value in allowed:
            return value
        self._on_overflow()
        return "other" if "other" in allowed else OTHER

    def _admit(self, label: str, value: str, is_open: bool) -> str:
        names = self._names[label]
        known = names.get(value)
        if known is not None:
            return known
        if value in (UNKNOWN, OTHER):
            return value
        if is_open and len(names) < NAMES_MAX[label]:
            shown = names[value] = self._redactor.text(value, limit=LABEL_CHARACTERS_MAX)
            return shown
        self._on_overflow()
        return OTHER


class Family:
    """One metric with its children. Every method swallows bad values and counts them."""

    __slots__ = ("_children", "_family", "_labels", "_on_invalid", "metric")

    def __init__(
        self, metric: Metric, family: Any, *, labels: Labels, on_invalid: Callable[[], None]
    ) -> None:
        self.metric = metric
        self._family = family
        self._labels = labels
        self._on_invalid = on_invalid
        self._children: dict[Key, Any] = {} if metric.labels else {(): family}

    def __repr__(self) -> str:
        return f"Family({self.metric.name}: {len(self._children)} children)"

    def inc(self, *key: str, amount: float = 1.0, exemplar: dict[str, str] | None = None) -> None:
        """Add to a counter."""
        if not 0 <= amount < inf:  # false for NaN, too
            self._on_invalid()
            return
        child = self._children.get(key) or self._child(key)
        if exemplar is None:
            child.inc(amount)
        else:
            child.inc(amount, exemplar)

    def observe(self, *key: str, amount: float, exemplar: dict[str, str] | None = None) -> None:
        """Add an observation to a histogram."""
        if not 0 <= amount < inf:
            self._on_invalid()
            return
        child = self._children.get(key) or self._child(key)
        if exemplar is None:
            child.observe(amount)
        else:
            child.observe(amount, exemplar)

    def set(self, *key: str, amount: float) -> None:
        """Set a gauge."""
        if not -inf < amount < inf:
            self._on_invalid()
            return
        (self._children.get(key) or self._child(key)).set(amount)

    def step(self, *key: str, amount: float) -> None:
        """Move a gauge up or down."""
        (self._children.get(key) or self._child(key)).inc(amount)

    def describe(self, values: dict[str, str]) -> None:
        """Set the labels of an info metric."""
        shown = self._labels.resolve(self.metric, tuple(values.values()))
        self._family.info(dict(zip(values, shown, strict=True)))

    def prepare(self, *choices: Iterable[str], only: Callable[[Key], bool] | None = None) -> None:
        """Make the children of all combinations, so that their first event is seen as a rise."""
        for key in itertools.product(*choices):
            if only is None or only(key):
                self._child(key)

    def _child(self, key: Key) -> Any:
        shown = self._labels.resolve(self.metric, key)
        child = self._children.get(shown)
        if child is None:
            child = self._children[shown] = self._family.labels(*shown)
        if shown != key and OTHER not in shown and "other" not in shown:
            self._children[key] = child  # a bounded set of names that are shown masked
        return child
