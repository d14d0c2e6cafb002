"""Put tool calls together from the fragments of a stream.

Servers disagree on how a fragment says which call it belongs to. The order of trust: the index,
when it tells calls apart; a new id that comes with a name; else the fragment continues the last
call. Arguments are only read when the stream is over.
"""

from __future__ import annotations

from typing import Any

from worker.model.jsontext import NotStrict, read_strictly

_KNOWN = frozenset({"index", "id", "type", "function"})
_FLAT = ("name", "arguments")
_MIN_LATCH = 2  # characters of a buffer that a cumulative fragment must repeat


class _Slot:
    """One call in the making."""

    __slots__ = ("call_id", "extra", "fragments", "function_extra", "kind", "name", "whole")

    def __init__(self) -> None:
        self.call_id: Any = None
        self.kind: str = "function"
        self.name = ""
        self.fragments: list[str] = []
        self.whole: dict[str, Any] | None = None  # arguments that came as an object
        self.extra: dict[str, Any] = {}
        self.function_extra: dict[str, Any] = {}

    def arguments(self) -> Any:
        """Return the arguments as one text; cumulative fragments count once.

        Only the end tells: `{"a":` and `{"a":1}}` may be one nested object or the same one sent
        again longer.
        """
        if self.whole is not None and not self.fragments:
            return self.whole
        joined = "".join(self.fragments)
        if len(self.fragments) < 2 or is_complete(joined):
            return joined
        latched = _latched(self.fragments)
        return latched if latched is not None else joined

    def add(self, fragment: dict[str, Any], function: dict[str, Any]) -> None:
        call_id = fragment.get("id")
        if self.call_id in (None, "") and call_id not in (None, ""):
            self.call_id = call_id
        if isinstance(fragment.get("type"), str) and fragment["type"]:
            self.kind = fragment["type"]
        self._add_name(function.get("name"))
        arguments = function.get("arguments")
        if isinstance(arguments, str):
            if arguments:
                self.fragments.append(arguments)
        elif isinstance(arguments, dict):
            self.whole = arguments
        for key, value in fragment.items():
            if key not in _KNOWN and value is not None:
                self.extra[key] = value
        for key, value in function.items():
            if key not in ("name", "arguments") and value is not None:
                self.function_extra[key] = value

    def _add_name(self, name: Any) -> None:
        if not isinstance(name, str) or not name or name == self.name:
            return
        # Names come in pieces, or again and again, or longer and longer.
        self.name = name if name.startswith(self.name) else self.name + name

    def body(self) -> dict[str, Any]:
        function = {**self.function_extra, "name": self.name, "arguments": self.arguments()}
        call = {**self.extra, "type": self.kind, "function": function}
        if self.call_id is not None:
            call["id"] = self.call_id
        return call


class CallSlots:
    """All calls of one reply, in the order in which they began."""

    def __init__(self) -> None:
        self._slots: list[_Slot] = []
        self._by_index: dict[Any, _Slot] = {}

    def __bool__(self) -> bool:
        return bool(self._slots)

    def add(self, fragment: Any) -> None:
        """Take one element of `delta.tool_calls`."""
        if not isinstance(fragment, dict):
            return
        function = fragment.get("function")
        if not isinstance(function, dict):  # a server that leaves this level out
            function = {key: fragment[key] for key in _FLAT if key in fragment}
            fragment = {key: value for key, value in fragment.items() if key not in _FLAT}
        self._slot_of(fragment, function).add(fragment, function)

    def bodies(self) -> list[dict[str, Any]]:
        """Return the calls as a message that was not streamed would hold them."""
        return [slot.body() for slot in self._slots]

    def _slot_of(self, fragment: dict[str, Any], function: dict[str, Any]) -> _Slot:
        index = _number(fragment.get("index"))
        if index is not None:
            slot = self._by_index.get(index)
        else:
            slot = self._with_id(fragment.get("id")) or (self._slots[-1] if self._slots else None)
        if slot is None:
            return self._open(index)
        return self._open(index) if _begins_another(slot, fragment, function) else slot

    def _with_id(self, call_id: Any) -> _Slot | None:
        if call_id in (None, ""):
            return None
        return next((slot for slot in self._slots if slot.call_id == call_id), None)

    def _open(self, index: int | None) -> _Slot:
        slot = _Slot()
        self._slots.append(slot)
        if index is not None:
            self._by_index[index] = slot
        return slot


def _number(index: Any) -> int | None:
    if isinstance(index, int):
        return index
    if isinstance(index, str) and index.isascii() and index.isdigit() and len(index) < 10:
        return int(index)
    return None


def _begins_another(slot: _Slot, fragment: dict[str, Any], function: dict[str, Any]) -> bool:
    """Tell whether a fragment that points at a call is in truth the start of the next one."""
    name = function.get("name")
    if not isinstance(name, str) or not name or not slot.name:
        return False
    call_id = fragment.get("id")
    if call_id in (None, "") or slot.call_id in (None, ""):
        return _starts_over(slot, name, function.get("arguments"))
    if call_id == slot.call_id:
        return False
    if not slot.fragments and slot.whole is None:
        return name != slot.name  # a call without arguments, unless the same one goes on
    return slot.whole is not None or is_complete("".join(slot.fragments))


def _starts_over(slot: _Slot, name: str, arguments: Any) -> bool:
    # Without ids only a second complete object, or another name after one, tells a new call.
    if isinstance(arguments, dict):
        return slot.whole is not None and (arguments != slot.whole or name != slot.name)
    text = "".join(slot.fragments)
    if slot.whole is None and not is_complete(text):
        return False
    if name != slot.name and not name.startswith(slot.name):
        return True
    return isinstance(arguments, str) and arguments.startswith("{") and arguments != text


def is_complete(text: str) -> bool:
    """Tell whether a text is one whole JSON object."""
    if not text.rstrip().endswith("}"):
        return False
    try:
        return isinstance(read_strictly(text.strip()), dict)
    except NotStrict:
        return True  # whole, if not usable; saying why is the business of whoever reads it
    except (ValueError, RecursionError):
        return False


def _latched(fragments: list[str]) -> str | None:
    """Join fragments of which each repeats what came before; None when they do not."""
    text = fragments[0]
    repeats = 0
    for fragment in fragments[1:]:
        if len(text) >= _MIN_LATCH and fragment.startswith(text):
            text = fragment
            repeats += 1
        else:
            text += fragment
    return text if repeats else None
