"""Addresses below a task: `/v1/tasks/{id}/events`, where an id may hold slashes, and such words."""

from __future__ import annotations

from starlette.convertors import PathConvertor, register_url_convertor
from starlette.routing import Match, Route
from starlette.types import Scope


class _Name(PathConvertor):
    """An id or a name: any text, for other programs put tasks whose ids have line breaks, too."""

    regex = "(?s:.*)"


register_url_convertor("name", _Name())


class Below(Route):
    """A route whose last word counts only as it was typed.

    A slash of an id is sent as `%2F` (our Location headers and commands do), so
    `/v1/tasks/a%2Fevents` is the task `a/events`, not the events of `a`.
    """

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match as any route does, unless the last slash is part of the id."""
        typed = scope.get("raw_path")  # servers need not tell it
        last_word = self.path[self.path.rindex("/") :].encode()
        if typed is not None and not typed.endswith(last_word):
            return Match.NONE, {}
        return super().matches(scope)
