"""What the calls of a sequential group share within one run: a dictionary and cookies.

Each call is lent the group's state as the last one left it, and what it leaves is taken back and
written down as JSON, in the same write as its observation. So a run that is parked, or taken up by
another worker, goes on with what it had; what JSON does not hold is dropped at once and told,
because it would work only until then. The cookies are alive between calls of one worker and are
written down beside the dictionary. An object of this kind belongs to one execution of one run and is
gone with it: nothing is shared between runs, sessions or tenants.

Both are secrets in all likelihood: they stand in the journal and nowhere else.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from worker.core.events import StateKept
from worker.http import CookieClient
from worker.telemetry.signals import StateDropped
from worker.telemetry.tell import Telemetry
from worker.toolcontext import ToolContext

STATE_CHARS_MAX = 32_768  # of one group, as JSON; its cookies may take as much again
MakeClient = Callable[[Any], CookieClient]


@dataclass(slots=True)
class _Group:
    """`state` and `cookies` as JSON, as the last call left them."""

    state: str = "{}"
    cookies: str = "[]"
    client: CookieClient | None = None


class Groups:
    """The groups of one run. `kept` is what the journal says of them, by name.

    `make_client` makes a client that keeps cookies; None leaves tools the shared one.
    """

    def __init__(
        self,
        kept: Mapping[str, str],
        *,
        telemetry: Telemetry,
        make_client: MakeClient | None = None,
    ) -> None:
        self._telemetry = telemetry
        self._make_client = make_client
        self._groups = {name: _read(text) for name, text in kept.items()}
        self._lent: dict[str, tuple[str, ToolContext]] = {}

    def __repr__(self) -> str:
        return (
            f"Groups({', '.join(self._groups)})"  # the names; what they hold is nobody's business
        )

    def lend(self, name: str, context: ToolContext) -> None:
        """Give a call its group's state and client; `take_back` has to follow, with its id."""
        group = self._groups.setdefault(name, _Group())
        context.state = json.loads(group.state)
        if self._make_client is not None:
            if group.client is None:
                group.client = self._make_client(json.loads(group.cookies))
            context.http = group.client.client
        self._lent[context.call_id] = name, context

    def take_back(self, call_id: str, *, at: float, is_left_behind: bool) -> StateKept | None:
        """Take what a call leaves; the fact to journal if that is something new.

        `is_left_behind`: the call may still be running, so the next one gets things of its own.
        """
        name, context = self._lent.pop(call_id, (None, None))
        if name is None or context is None:
            return None
        group = self._groups[name]
        state = self._written(name, context.state, group.state)
        cookies = group.cookies
        if group.client is not None:
            cookies = self._written(name, group.client.kept(), group.cookies)
            if is_left_behind:
                group.client.renew()
        if (state, cookies) == (group.state, group.cookies):
            return None
        group.state, group.cookies = state, cookies
        return StateKept(at, name, f'{{"state":{state},"cookies":{cookies}}}')

    def _written(self, name: str, value: Any, before: str) -> str:
        try:
            text = json.dumps(value, allow_nan=False, separators=(",", ":"))
            is_same = json.loads(text) == value
        except (TypeError, ValueError, RuntimeError) as error:  # or changed while it was read
            return self._drop(name, f"cannot be written as JSON ({type(error).__name__})", before)
        if not is_same or not isinstance(value, dict | list):
            return self._drop(name, "holds what JSON does not, such as a tuple", before)
        if len(text) > STATE_CHARS_MAX:
            size = f"has {len(text)} characters as JSON, at most {STATE_CHARS_MAX} are kept"
            return self._drop(name, size, before)
        return text

    def _drop(self, name: str, reason: str, before: str) -> str:
        self._telemetry.tell(StateDropped(name, reason))
        return before


def _read(text: str) -> _Group:
    """Read what `take_back` has written; what cannot be read is a group that has nothing yet."""
    try:
        kept = json.loads(text)
        return _Group(json.dumps(kept["state"]), json.dumps(kept["cookies"]))
    except (ValueError, KeyError, TypeError):
        return _Group()
