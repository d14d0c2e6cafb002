"""Read numerals: 一千二百三十四, 三点五, 二〇二六, 两千三 (which is 2300), forty-nine million."""

from __future__ import annotations

import re

CHINESE_DIGITS = "零〇一二两三四五六七八九"
_DIGITS = dict(zip(CHINESE_DIGITS, (0, 0, 1, 2, 2, 3, 4, 5, 6, 7, 8, 9), strict=True))
_UNITS = {"十": 10, "百": 100, "千": 1000}
_MYRIADS = {"万": 10_000, "亿": 100_000_000}
_WORDS = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_ENGLISH = {word: i for i, word in enumerate(_WORDS)}
_ENGLISH |= {word: 10 * i for i, word in enumerate(_TENS, 2)}
_ENGLISH_UNITS = {"hundred": 1e2, "thousand": 1e3, "grand": 1e3, "million": 1e6, "billion": 1e9}
ENGLISH_WORDS = "|".join([*reversed(_WORDS), *_TENS])
ENGLISH_UNITS = "|".join(_ENGLISH_UNITS)

# What a word or a letter after a number multiplies it with.
SCALES = dict(zip("百千万亿", (1e2, 1e3, 1e4, 1e8), strict=True))
SCALES |= {"百万": 1e6, "千万": 1e7, "万亿": 1e12, "hundred": 1e2, "thousand": 1e3, "grand": 1e3}
SCALES |= {"million": 1e6, "billion": 1e9, "trillion": 1e12, "k": 1e3, "m": 1e6, "mn": 1e6}
SCALES |= {"lakh": 1e5, "crore": 1e7, "dozen": 12.0, "b": 1e9, "bn": 1e9, "t": 1e12}


def english_number_of(words: str) -> float:
    """The value of a numeral in English words, and of nothing else.

    Fourteen point two is 14.2, ten and a half thousand 10,500.
    """
    whole, point, decimals = words.lower().replace("-", " ").partition(" point ")
    if point:
        digits = "".join(str(_ENGLISH[word]) for word in decimals.split() if word in _ENGLISH)
        return english_number_of(whole) + float(f"0.{digits or 0}")
    total = section = 0.0
    for word in whole.replace("and a half", "half").split():
        unit = _ENGLISH_UNITS.get(word, 1.0)
        if word == "hundred":
            section *= unit
        elif unit > 1:
            total, section = total + section * unit, 0.0
        else:
            section += 0.5 if word == "half" else _ENGLISH.get(word, 0)  # "and" is worth nothing
    return total + section


def int_of(word: str) -> int:
    """The value of digits or of English words for a whole number."""
    return int(word) if word.isdigit() else int(english_number_of(word))


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


def last_unit_of(word: str) -> float:
    """What the last unit of a Chinese numeral is worth: 100 for 三千八百, 1 for 三千八百零五."""
    return float({**_UNITS, **_MYRIADS}.get(word[-1], 1))


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


def read(word: str) -> tuple[float, float]:
    """The value of digits or of a Chinese numeral, and the worth of the last digit shown."""
    if word[0].isascii():
        return readings_of(word)[0], quantum_of(word)
    return number_of(word)


def readings_of(digits: str) -> tuple[float, ...]:
    """What the digits may mean: 1.234 is read both ways, as is 12,5."""
    digits = re.sub(r"[ \u00a0\u202f']", "", digits)
    readings = [float(digits.replace(",", ""))] if digits.count(".") <= 1 else []
    if re.fullmatch(r"[0-9]{1,3}(?:\.[0-9]{3})+(?:,[0-9]+)?", digits):
        readings.append(float(digits.replace(".", "").replace(",", ".")))
    elif re.fullmatch(r"[0-9]+,[0-9]{1,2}", digits):
        readings = [float(digits.replace(",", "."))]
    if re.fullmatch(r"[0-9]{1,3}(?:\.[0-9]{3})+,[0-9]+", digits):
        readings = readings[-1:]
    return tuple(readings)


def quantum_of(digits: str) -> float:
    """What one unit of the last digit shown is worth."""
    mantissa, _, exponent = digits.lower().partition("e")
    mark = "," if re.fullmatch(r"[0-9.]+,[0-9]{1,2}|[0-9.]+\.[0-9.]*,[0-9]+", mantissa) else "."
    _, point, decimals = mantissa.rpartition(mark)
    quantum = 10.0 ** -len(decimals) if point else 1.0
    return float(quantum * 10.0 ** max(-300, min(300, int(exponent[:5] or 0))))
