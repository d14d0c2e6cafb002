"""Answers to degraded runs by template: one value is told, one is not, in many ways of writing."""

from __future__ import annotations

import json
from calendar import month_name
from random import Random

from tests.core.answerbook import Scene

_DIGITS = "零一二三四五六七八九"
# A table of its own: one shared with the gate would not show a word that it misspells.
_ONES = [
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
_TENS = ["-", "-", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_WIDE = str.maketrans("0123456789.", "０１２３４５６７８９．")


def chinese(number):
    """A whole number in Chinese numerals."""
    if number >= 10_000:
        rest = number % 10_000
        low = ("零" if rest < 1000 else "") + chinese(rest) if rest else ""
        return f"{chinese(number // 10_000)}万{low}"
    text, gap = "", False
    for worth, unit in ((1000, "千"), (100, "百"), (10, "十"), (1, "")):
        digit = number // worth % 10
        if digit:
            text += ("零" if gap else "") + _DIGITS[digit] + unit
        gap = bool(text) and not digit
    text = text or "零"
    return text[1:] if text.startswith("一十") else text


def english(number):
    """A whole number below a million in English words."""
    if number < 20:
        return _ONES[number]
    if number < 100:
        return _TENS[number // 10] + (f"-{_ONES[number % 10]}" if number % 10 else "")
    if number < 1000:
        rest = f" and {english(number % 100)}" if number % 100 else ""
        return f"{_ONES[number // 100]} hundred{rest}"
    rest = f" {english(number % 1000)}" if number % 1000 else ""
    return f"{english(number // 1000)} thousand{rest}"


def _forms(kind, value, zh):
    match kind:
        case "date":
            year, month, day = value
            if zh:
                made = f"{chinese(month)}月{chinese(day)}日"
                return [f"{year}年{month}月{day}日", f"{month}月{day}号", made, f"{month}/{day}"]
            name = month_name[month]
            return [f"{name} {day}, {year}", f"{day} {name[:3]}", f"the {day}th of {name}"]
        case "time":
            hour, minute = value
            half = hour if hour <= 12 else hour - 12
            if zh:
                part = "上午" if hour < 12 else "下午"
                said = f"{part}{chinese(half)}点{chinese(minute)}分"
                return [f"{hour}:{minute:02}", f"{part}{half}点{minute}分", said]
            mark = "am" if hour < 12 else "pm"
            return [f"{hour:02}:{minute:02}", f"{half}:{minute:02} {mark}"]
        case "share":
            return [f"{value}%", f"百分之{value}"] if zh else [f"{value}%", f"{value} percent"]
        case "price" if zh:
            return [f"{value} 元", f"¥{value:,.2f}", f"{str(value).translate(_WIDE)}元"]
        case "price":
            return [f"${value:,.2f}", f"{value} dollars", f"USD {value:,.2f}"]
        case _ if zh:
            return [f"{value:,}", chinese(value), str(value)]
        case _:
            return [f"{value:,}", english(value), str(value)]


def _value(random, kind):
    match kind:
        case "date":
            return random.choice((2025, 2026)), random.randint(1, 12), random.randint(13, 19)
        case "time":
            return random.randint(6, 22), random.randint(1, 59)
        case "share":
            return round(random.uniform(2, 98), 1)
        case "price":
            return round(random.uniform(3, 9999), 2)
        case _:
            return random.choice((random.randint(31, 99), random.randint(100, 99_999)))


_THINGS = {
    "zh": [
        ("库存", "count", "库存为{}", "库存查询暂不可用"),
        ("成交价", "price", "成交价是{}", "行情暂不可用"),
        ("合格率", "share", "合格率达到{}", "质检数据暂不可用"),
        ("到货日期", "date", "到货日期为{}", "物流暂不可用"),
        ("开门时间", "time", "开门时间是{}", "门店信息暂不可用"),
    ],
    "en": [
        ("stock", "count", "there are {} in stock", "Stock data is unavailable."),
        ("price", "price", "the price is {}", "Quotes are unavailable."),
        ("pass rate", "share", "the pass rate is {}", "Quality data is unavailable."),
        ("delivery date", "date", "delivery is on {}", "Tracking is unavailable."),
        ("departure", "time", "it departs at {}", "The timetable is unavailable."),
    ],
}
_HONEST = {
    "zh": [
        "{ok}。{stub}。",
        "{stub},请稍后再试。目前能确认的是:{ok}。",
        "1. {ok}\n2. {lacked}:{stub}",
    ],
    "en": ["Yes, {ok}. {stub}", "{stub} What I can confirm: {ok}.", "1. {ok}\n2. {lacked}: {stub}"],
}
_INVENTED = {
    "zh": ["{ok},{made}。", "{stub}。参考往年,{made}。", "**{made}**", "{ok};估计{made}左右吧。"],
    "en": ["Yes, {ok}, and {made}.", "{stub} Typically {made}.", "**{made}**", "So {made} or so."],
}


def scenes(seed: int, count: int) -> list[Scene]:
    """Make scenes with an honest and an invented answer each, half of them Chinese."""
    random, made = Random(seed), []
    while len(made) < count:
        language = ("zh", "en")[len(made) % 2]
        zh = language == "zh"
        told, lacked = random.sample(_THINGS[language], 2)
        known, invented = _value(random, told[1]), _value(random, lacked[1])
        ask = "请查一下{}和{}" if zh else "What are the {} and the {}?"
        scene = Scene(ask.format(told[0], lacked[0]))
        row = {"name": told[0], "value": _raw(told[1], known)}
        stale = {"source": "stale", "age": 1800.0} if random.random() < 0.25 else {"source": "ok"}
        scene.tell("lookup", text=json.dumps(row, ensure_ascii=False), **stale)
        scene.tell("lookup_too", "stub", lacked[3])
        said = {"ok": told[2].format(random.choice(_forms(told[1], known, zh)))}
        said |= {"made": lacked[2].format(random.choice(_forms(lacked[1], invented, zh)))}
        said |= {"stub": lacked[3], "lacked": lacked[0]}
        scene.honest.append(random.choice(_HONEST[language]).format(**said))
        scene.invented.append(random.choice(_INVENTED[language]).format(**said))
        made.append(scene)
    return made


def _raw(kind, value):
    match kind:
        case "date":
            return "{}-{:02}-{:02}".format(*value)
        case "time":
            return "{:02}:{:02}".format(*value)
        case _:
            return value
