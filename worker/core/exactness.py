"""How exact a figure is meant: by the digits it shows, and by the words around it (约, nearly, 多)."""

from __future__ import annotations

import math

from worker.core import surroundings as near
from worker.core.figure import Figure, Kind

_BEFORE, _AFTER = 14, 5
_MORE_AT_MOST = 0.1  # just over a thousand
_ROUNDED_AT_MOST = 0.05  # 2万 is no rounding of 17,000
_TENTH = 10.0  # 两成多 is up to three tenths


def tolerance_of(figure: Figure, text: str) -> float:
    """How far the value told may be from the one said."""
    half, value = figure.quantum / 2, abs(figure.values[0])
    if figure.kind in (Kind.TIME, Kind.IDENTIFIER):
        return 0.0
    before = text[max(0, figure.start - _BEFORE) : figure.start]
    after = text[figure.end : figure.end + _AFTER]
    is_more = bool(near.MORE_BEFORE.search(before)) or figure.text[-1:] in "多余"
    is_more = is_more or bool(near.MORE_AFTER.match(after))
    is_about = bool(near.ABOUT_BEFORE.search(before) or near.ABOUT_AFTER.match(after)) or is_more
    if is_about:
        shown = max(figure.quantum, _last_shown(value))
        if value >= 20 and value % 5 == 0 and shown < 10:
            shown = 5.0  # about 175
        half = max(half, shown if is_more else shown / 2)
        if figure.kind is Kind.DURATION and figure.quantum < 1:
            half = max(half, 0.25)  # about two and a half hours
    if figure.kind is Kind.PERCENT and figure.quantum == _TENTH and near.MORE_AFTER.match(after):
        return _TENTH
    if max(figure.quantum, half) > 1:
        at_most = (_MORE_AT_MOST if is_more else _ROUNDED_AT_MOST) * value
        # 四十多 and sixty-odd mean everything up to the next ten.
        half = min(half, max(at_most, figure.quantum / 2 if value % 10 == 5 else 0.0))
    return half


def digits_of(value: float, quantum: float) -> int:
    """How many digits say something: 3 for 550 and 5.29, 1 for 300."""
    shown = round(abs(value) / quantum) if quantum else 0
    if shown == 0:
        return 3 if quantum < 1 else 0
    digits = int(math.log10(shown)) + 1
    if quantum < 1:
        return digits
    return digits if shown % 10 ** (digits - 1) else 1


def _last_shown(value: float) -> float:
    """What the last digit but zeros is worth: 10 for 460, 100 for 12,900."""
    if value < 10 or value != int(value):
        return 0.0
    worth = 1
    while value % (worth * 10) == 0:
        worth *= 10
    return float(worth)
