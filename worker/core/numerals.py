"""Read Chinese numerals: 一千二百三十四, 三点五, 二〇二六, 两千三 (which is 2300)."""

from __future__ import annotations

CHINESE_DIGITS = "零〇一二两三四五六七八九"
_DIGITS = dict(zip(CHINESE_DIGITS, (0, 0, 1, 2, 2, 3, 4, 5, 6, 7, 8, 9), strict=True))
_UNITS = {"十": 10, "百": 100, "千": 1000}
_MYRIADS = {"万": 10_000, "亿": 100_000_000}


def number_of(word: str) -> tuple[float, float]:
    """The value of a numeral, Chinese or Arabic, and the worth of its last digit."""
    if word[0].isascii():
        whole, point, decimals = word.replace(",", "").partition(".")
        return float(word.replace(",", "")), 10.0 ** -len(decimals) if point else 1.0
    whole, point, decimals = word.partition("点")
    value = float(_whole(whole))
    if not point:
        return value, 1.0
    return float(f"{int(value)}.{''.join(str(_DIGITS[c]) for c in decimals)}"), 0.1 ** len(decimals)


def _whole(word: str) -> int:
    if all(c in _DIGITS for c in word):
        return int("".join(str(_DIGITS[c]) for c in word))
    total = section = digit = 0
    last_unit = 1
    for c in word:
        if c in _DIGITS:
            digit = _DIGITS[c]
            last_unit = 1 if digit == 0 else last_unit
        elif c in _UNITS:
            section += (digit or 1) * _UNITS[c]
            digit, last_unit = 0, _UNITS[c]
        else:
            # 一万亿 is 万 times 亿: what stands before a larger unit is multiplied as a whole.
            if _MYRIADS[c] > 10_000 and total:
                total = (total + section + digit) * _MYRIADS[c]
            else:
                total += (section + digit or 1) * _MYRIADS[c]
            section, digit, last_unit = 0, 0, _MYRIADS[c]
    if digit and last_unit > 10:
        digit *= last_unit // 10  # 两千三: the last digit counts the next lower unit
    return total + section + digit
