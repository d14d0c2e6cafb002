"""Strongly connected components: what a schema or a pattern can come back to."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TypeVar

Node = TypeVar("Node", bound=Hashable)


class TooMuch(Exception):
    """The graph has more edges than the caller wants to walk."""


def components(
    roots: Iterable[Node], following: Callable[[Node], Iterable[Node]], *, edges_max: int
) -> list[list[Node]]:
    """Return the components that the roots lead to, each after those it leads to (Tarjan).

    Without recursion, for the graph is a stranger's. Raises TooMuch beyond `edges_max` edges.
    """
    found: list[list[Node]] = []
    number: dict[Node, int] = {}
    low: dict[Node, int] = {}
    open_nodes: list[Node] = []
    is_open: set[Node] = set()
    edges = 0
    for root in roots:
        if root in number:
            continue
        path: list[tuple[Node, Iterator[Node]]] = []
        _enter(root, following, (number, low, open_nodes, is_open, path))
        while path:
            node, rest = path[-1]
            edges += 1
            if edges > edges_max:
                raise TooMuch
            after = next(rest, None)
            if after is not None:
                if after not in number:
                    _enter(after, following, (number, low, open_nodes, is_open, path))
                elif after in is_open:
                    low[node] = min(low[node], number[after])
                continue
            path.pop()
            if path:
                low[path[-1][0]] = min(low[path[-1][0]], low[node])
            if low[node] == number[node]:
                found.append(_closed(node, open_nodes, is_open))
    return found


_State = tuple[
    dict[Node, int], dict[Node, int], list[Node], set[Node], list[tuple[Node, Iterator[Node]]]
]


def _enter(node: Node, following: Callable[[Node], Iterable[Node]], state: _State[Node]) -> None:
    number, low, open_nodes, is_open, path = state
    number[node] = low[node] = len(number)
    open_nodes.append(node)
    is_open.add(node)
    path.append((node, iter(following(node))))


def _closed(node: Node, open_nodes: list[Node], is_open: set[Node]) -> list[Node]:
    start = open_nodes.index(node)
    component = open_nodes[start:]
    del open_nodes[start:]
    is_open.difference_update(component)
    return component
