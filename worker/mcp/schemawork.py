"""How many schemas one value is held against at worst, references followed.

Two ways from a schema to others: those for the same value (`allOf`, `$ref`, …) and those for the
values inside it (`properties`, `items`, …). A circle of the first kind has no end. A circle of the
second kind is a tree, and fine, while each level leads to the next one once; twice, and a value of
thirty levels costs a thousand million checks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from worker.mcp.graphs import TooMuch, components

Schema = dict[str, Any]

EDGES_MAX = 50_000
_LISTS = ("allOf", "anyOf", "oneOf")
_SINGLES = ("not", "if", "then", "else")
_MAPS = ("dependentSchemas", "dependencies")
_ITEMS = ("items", "prefixItems", "additionalItems", "contains", "unevaluatedItems")
# How a member of an object finds its schemas: by name and by pattern, else by what is left over.
_MEMBERS = ("properties", "patternProperties", "additionalProperties", "unevaluatedProperties")


def work_of(schema: Schema, targets: dict[int, list[Schema]]) -> tuple[str | None, int]:
    """Return what is wrong with the schema, or None, and its work.

    `targets` are the schemas that a node refers to, by the node's `id()`.
    """
    graph = _Graph(targets)
    work: dict[int, int] = {}
    try:
        groups = components([id(schema)], graph.all_after(schema), edges_max=EDGES_MAX)
        for group in groups:  # what a group leads to comes before it
            problem = graph.weigh(group, work)
            if problem is not None:
                return problem, 0
    except (TooMuch, RecursionError):
        return "is too tangled to judge", 0
    return None, work[id(schema)]


class _Graph:
    """The schema's nodes by identity, and what follows from each."""

    def __init__(self, targets: dict[int, list[Schema]]) -> None:
        self._targets = targets
        self._nodes: dict[int, Schema] = {}

    def all_after(self, root: Schema) -> Any:
        """Return the function from a node to all that follow from it, known from the root on."""
        self._nodes[id(root)] = root

        def following(number: int) -> Iterator[int]:
            node = self._nodes[number]
            for child in [*self._same(node), *_inside(node)]:
                self._nodes[id(child)] = child
                yield id(child)

        return following

    def weigh(self, group: list[int], work: dict[int, int]) -> str | None:
        """Write the work of a group's members; or say why there is no bound."""
        members = set(group)
        leads_back = len(group) > 1 or any(
            id(child) in members
            for number in group
            for child in [*self._same(self._nodes[number]), *_inside(self._nodes[number])]
        )
        if not leads_back:
            work[group[0]] = self._alone(self._nodes[group[0]], work)
            return None
        turns: dict[tuple[int, str], int] = {}
        for number in group:
            for kind in ("object", "array"):
                if self._turns(number, kind, members, turns, ()) is None:
                    return "refers to itself for the same value, without an end"
                if turns[number, kind] > 1:
                    return "refers to itself twice in one place: each level would double the work"
        # Each member is met once for each level, and so are the ways out.
        total = sum(self._alone(self._nodes[number], work, skip=members) for number in group)
        work.update(dict.fromkeys(group, total))
        return None

    def _alone(self, node: Schema, work: dict[int, int], *, skip: Collection[int] = ()) -> int:
        def known(children: list[Schema]) -> int:
            return sum(work[id(child)] for child in children if id(child) not in skip)

        return (
            1 + known(self._same(node)) + max(_most_members(node, known), _most_items(node, known))
        )

    def _turns(
        self,
        number: int,
        kind: str,
        members: set[int],
        turns: dict[tuple[int, str], int],
        above: tuple[int, ...],
    ) -> int | None:
        """Count how often a value inside is held against the group; None: without an end."""
        if (number, kind) in turns:
            return turns[number, kind]
        if number in above:
            return None
        node = self._nodes[number]

        def inside(children: list[Schema]) -> int:
            return sum(id(child) in members for child in children)

        total = (_most_members if kind == "object" else _most_items)(node, inside)
        for child in self._same(node):
            if id(child) in members:
                more = self._turns(id(child), kind, members, turns, (*above, number))
                if more is None:
                    return None
                total += more
        turns[number, kind] = total
        return total

    def _same(self, node: Schema) -> list[Schema]:
        """The schemas that the same value is held against."""
        found = [each for key in _LISTS for each in _list(node.get(key))]
        found += [node[key] for key in _SINGLES if isinstance(node.get(key), dict)]
        found += [each for key in _MAPS for each in _values(node.get(key))]
        return found + self._targets.get(id(node), [])


def _inside(node: Schema) -> list[Schema]:
    """The schemas for the values inside a value."""
    found = [each for key in _ITEMS for each in _list(node.get(key))]
    found += [each for key in _MEMBERS[:2] for each in _values(node.get(key))]
    single = (*_MEMBERS[2:], "propertyNames")
    return found + [node[key] for key in single if isinstance(node.get(key), dict)]


def _most_members(node: Schema, count: Any) -> int:
    """The most that `count` gives for the schemas which one member of an object may meet."""
    named, patterns, rest, left = (node.get(key) for key in _MEMBERS)
    by_name = max((count([each]) for each in _values(named)), default=0)
    by_pattern = count(_values(patterns))
    name = count([node["propertyNames"]]) if isinstance(node.get("propertyNames"), dict) else 0
    return int(max(by_name + by_pattern, count(_list(rest))) + count(_list(left)) + name)


def _most_items(node: Schema, count: Any) -> int:
    """The most that `count` gives for the schemas which one item of an array may meet."""
    either = [count([each]) for key in _ITEMS[:3] for each in _list(node.get(key))]
    beside = [each for key in _ITEMS[3:] for each in _list(node.get(key))]
    return int(max(either, default=0) + count(beside))


def _list(value: Any) -> list[Schema]:
    if isinstance(value, dict):
        return [value]
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _values(value: Any) -> list[Schema]:
    return _list(list(value.values())) if isinstance(value, dict) else []
