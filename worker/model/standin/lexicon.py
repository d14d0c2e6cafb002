"""The few words the stand-in knows, Chinese and English side by side."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Concept:
    """Something a question may be about and a tool may be for.

    `asked` finds it in a question, `names` are words of tool names, `described` finds it in the
    description of a tool.
    """

    name: str
    asked: re.Pattern[str]
    names: frozenset[str]
    described: re.Pattern[str]


def _concept(name: str, *, asked: str, names: str, described: str = "") -> Concept:
    either = f"{asked}|{described}" if described else asked
    return Concept(
        name,
        re.compile(asked, re.IGNORECASE),
        frozenset(names.split()),
        re.compile(either, re.IGNORECASE),
    )


CONCEPTS = (
    _concept(
        "time",
        asked=r"几点|时间|日期|几号|星期几|今天是|\btime\b|\bdate\b|what day|o'?clock",
        names="time clock date now today",
        described=r"时区|time ?zone",
    ),
    _concept(
        "price",
        asked=r"股价|行情|股票|报价|价格|多少钱|\bstocks?\b|\bquotes?\b|\bprices?\b|\bticker"
        r"|\bshares?\b|trading at",
        names="stock stocks quote quotes price prices ticker market",
    ),
    _concept(
        "refund",
        asked=r"退款|退钱|退货|\brefund",
        names="refund refunds reimburse",
    ),
    _concept(
        "order",
        asked=r"订单|物流|发货|快递|\borders?\b|\bshipment|\bshipping\b|\bdelivery\b",
        names="order orders shipment purchase",
    ),
    _concept(
        "page",
        asked=r"网页|网址|链接|网站|https?://|\bweb ?pages?\b|\bweb ?site|\burl\b|\bpage\b",
        names="page web url fetch browse http site",
    ),
    _concept(
        "weather",
        asked=r"天气|气温|下雨|\bweather\b|\bforecast\b|\btemperature\b",
        names="weather forecast temperature",
    ),
    _concept(
        "mail",
        asked=r"邮件|发信|\be?-?mail\b",
        names="mail email",
    ),
    _concept(
        "report",
        asked=r"报告|报表|\breports?\b",
        names="report reports render",
    ),
    _concept(
        "sum",
        asked=r"加上|相加|之和|求和|\badd\b|\bsum\b|\bplus\b|\d\s*\+\s*\d",
        names="add sum plus",
    ),
    _concept(
        "calculate",
        asked=r"计算|算一下|等于多少|\bcalculate\b|\bcompute\b|\d\s*[*×/÷-]\s*\d",
        names="calculate calculator compute math",
    ),
    _concept(
        "search",
        asked=r"搜索|搜一下|检索|查找|\bsearch\b|\blook up\b|\bfind\b",
        names="search find lookup query retrieve",
    ),
    _concept(
        "translate",
        asked=r"翻译|\btranslat",
        names="translate translation",
    ),
)

# City -> zone and English name; the first spelling found in a text counts.
CITIES: dict[str, tuple[str, str]] = {
    "东京": ("Asia/Tokyo", "Tokyo"),
    "北京": ("Asia/Shanghai", "Beijing"),
    "上海": ("Asia/Shanghai", "Shanghai"),
    "深圳": ("Asia/Shanghai", "Shenzhen"),
    "广州": ("Asia/Shanghai", "Guangzhou"),
    "香港": ("Asia/Hong_Kong", "Hong Kong"),
    "台北": ("Asia/Taipei", "Taipei"),
    "新加坡": ("Asia/Singapore", "Singapore"),
    "首尔": ("Asia/Seoul", "Seoul"),
    "孟买": ("Asia/Kolkata", "Mumbai"),
    "迪拜": ("Asia/Dubai", "Dubai"),
    "莫斯科": ("Europe/Moscow", "Moscow"),
    "柏林": ("Europe/Berlin", "Berlin"),
    "巴黎": ("Europe/Paris", "Paris"),
    "伦敦": ("Europe/London", "London"),
    "纽约": ("America/New_York", "New York"),
    "芝加哥": ("America/Chicago", "Chicago"),
    "洛杉矶": ("America/Los_Angeles", "Los Angeles"),
    "旧金山": ("America/Los_Angeles", "San Francisco"),
    "悉尼": ("Australia/Sydney", "Sydney"),
}
ENGLISH_CITIES = {name.lower(): (zone, name) for zone, name in CITIES.values()}

COMPANIES = {
    "苹果": "AAPL",
    "apple": "AAPL",
    "特斯拉": "TSLA",
    "tesla": "TSLA",
    "微软": "MSFT",
    "microsoft": "MSFT",
    "谷歌": "GOOG",
    "google": "GOOG",
    "英伟达": "NVDA",
    "nvidia": "NVDA",
    "亚马逊": "AMZN",
    "amazon": "AMZN",
    "腾讯": "0700.HK",
    "tencent": "0700.HK",
    "阿里巴巴": "BABA",
    "alibaba": "BABA",
    "茅台": "600519.SS",
    "moutai": "600519.SS",
}
# Capital letters that are no ticker.
NOT_TICKERS = frozenset(
    [
        "A",
        "AN",
        "AND",
        "API",
        "APP",
        "CEO",
        "CN",
        "CNY",
        "CPU",
        "DB",
        "EU",
        "EUR",
        "FAQ",
        "FOR",
        "GBP",
        "GMT",
        "HK",
        "HTML",
        "HTTP",
        "HTTPS",
        "I",
        "ID",
        "IN",
        "IS",
        "IT",
        "JPY",
        "JSON",
        "LLM",
        "NO",
        "OF",
        "OK",
        "ON",
        "OR",
        "PDF",
        "PM",
        "AM",
        "RMB",
        "SQL",
        "THE",
        "TO",
        "UK",
        "URL",
        "US",
        "USA",
        "USD",
        "UTC",
        "VS",
        "WEB",
        "XML",
    ]
)
# Enum value -> how a text may say it.
SPELLINGS = {
    "CN": r"\bCN\b|中国|国内|大陆|\bchina\b|\bchinese\b",
    "US": r"\bUSA?\b|美国|\bamerica|\bunited states\b",
    "EU": r"\bEU\b|欧洲|欧盟|\beurope",
    "celsius": r"摄氏|celsius",
    "fahrenheit": r"华氏|fahrenheit",
}
STOP_WORDS = frozenset(
    [
        "a",
        "an",
        "and",
        "are",
        "at",
        "be",
        "by",
        "can",
        "could",
        "do",
        "does",
        "for",
        "from",
        "get",
        "give",
        "have",
        "how",
        "i",
        "in",
        "is",
        "it",
        "its",
        "let",
        "me",
        "my",
        "of",
        "on",
        "or",
        "please",
        "show",
        "tell",
        "that",
        "the",
        "this",
        "to",
        "us",
        "was",
        "what",
        "when",
        "where",
        "which",
        "who",
        "why",
        "will",
        "with",
        "you",
        "your",
        "one",
        "now",
    ]
)
