"""Properties of a message that another program has written wrong.

The client's library ends the connection at a text that is not UTF-8, or at a time beyond all
calendars. The message comes again at once, and so nobody would get any other one, for ever.
"""

from __future__ import annotations

import struct
from typing import Any

from pamqp import decode
from pamqp.commands import Basic

_TIME_BYTES = 8


def be_patient() -> None:
    """Let the library read what it can of a message's properties; the rest is left out."""
    Basic.Properties.unmarshal = _unmarshal  # type: ignore[assignment]


def _unmarshal(self: Basic.Properties, flags: int, data: bytes) -> None:
    for name in self.__slots__:
        if flags & self.flags[name]:
            kind = getattr(type(self), f"_{name}")
            try:
                consumed, value = decode.by_type(data, kind)
            except (ValueError, OverflowError, OSError):
                consumed, value = _as_far_as_possible(kind, data)
            setattr(self, name, value)
            data = data[consumed:]


def _as_far_as_possible(kind: str, data: bytes) -> tuple[int, Any]:
    """The bytes that a value takes, and what can be read of it. Raises ValueError."""
    if kind == "shortstr" and data:
        end = 1 + data[0]
        return end, data[1:end].decode("utf-8", "backslashreplace")
    if kind == "table" and len(data) >= 4:
        (size,) = struct.unpack(">I", data[:4])
        return 4 + size, {}
    if kind == "timestamp":
        return _TIME_BYTES, None
    raise ValueError(f"a {kind} that cannot be read")
