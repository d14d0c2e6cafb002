"""Units of measure: what is comparable with what, and how much one of each is worth."""

from __future__ import annotations

import re

# Of each dimension the worth of a unit in the smallest common one: seconds, metres, grams, bytes …
_DIMENSIONS: dict[str, dict[str, float]] = {
    "time": {
        "毫秒 ms millisecond milliseconds": 0.001,
        "秒 秒钟 s sec secs second seconds": 1.0,
        "分 分钟 min mins minute minutes": 60.0,
        "小时 个小时 钟头 个钟头 h hr hrs hour hours": 3600.0,
        "天 日 晚 工作日 个工作日 d day days night nights": 86400.0,
        "周 星期 个星期 礼拜 个礼拜 w week weeks": 604800.0,
        "个月 month months": 2629800.0,
        "年 year years yr yrs": 31557600.0,
    },
    "length": {
        "毫米 mm": 0.001,
        "厘米 公分 cm": 0.01,
        "米 m meter meters metre metres": 1.0,
        "里": 500.0,
        "公里 千米 km kilometer kilometers kilometre kilometres": 1000.0,
        "英里 mi mile miles": 1609.344,
        "英尺 ft foot feet": 0.3048,
        "英寸 inch inches": 0.0254,
    },
    "mass": {
        "毫克 mg milligram milligrams": 0.001,
        "克 g gram grams": 1.0,
        "公斤 千克 kg kilo kilos kilogram kilograms": 1000.0,
        "斤 市斤": 500.0,
        "两重": 50.0,
        "吨 t tonne tonnes tons": 1e6,
        "磅 lb lbs": 453.59237,
        "盎司 oz ounce ounces": 28.349523,
    },
    "data": {
        "kb": 1e3,
        "mb": 1e6,
        "gb G": 1e9,
        "tb": 1e12,
    },
    "area": {
        "平方米 平米 m² m2 sqm": 1.0,
        "平方公里 平方千米 km² km2": 1e6,
        "公顷 hectare hectares": 1e4,
        "acre acres": 4046.856,
        "平方英尺 ft² sqft": 0.09290304,
    },
    "volume": {"毫升 ml": 0.001, "升 l liter liters litre litres": 1.0},
    "speed": {
        "公里/小时 km/h kmh kph": 1.0,
        "m/s mps 米/秒": 3.6,
        "mph": 1.609344,
        "kn knot knots": 1.852,
    },
    "energy": {
        "千瓦时 度电 kwh": 1.0,
        "mwh": 1000.0,
        "千卡 大卡 kcal calories": 4.184 / 3600.0,
        "千焦 kj": 1 / 3600.0,
    },
    "heat": {"℃ °c celsius 摄氏度": 1.0, "℉ °f fahrenheit 华氏度": -1.0},
}
_SQUARE = re.compile(r"^sq(?:uare|\.)?[ ]?")
UNITS: dict[str, tuple[str, float]] = {
    name: (dimension, worth)
    for dimension, units in _DIMENSIONS.items()
    for names, worth in units.items()
    for name in names.split()
}


def unit_of(word: str) -> tuple[str, float] | None:
    """The dimension and the worth of a unit as it is written after a number."""
    found = UNITS.get(word) or UNITS.get(word.lower())
    if found is None and word.lower().startswith("sq"):
        side = UNITS.get(_SQUARE.sub("", word.lower()))  # square miles
        found = ("area", side[1] ** 2) if side and side[0] == "length" else None
    return found


def base_value(value: float, unit: tuple[str, float]) -> float:
    """What so much of a unit is in the smallest unit of its dimension; degrees in Celsius."""
    if unit[0] == "heat":
        return value if unit[1] > 0 else (value - 32.0) / 1.8
    return value * unit[1]
