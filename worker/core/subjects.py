"""What questions and tools may be about: one entry for a subject, Chinese and English side by side.

A tool whose description is English fits a Chinese question only by such a bridge. The entries are
narrow on purpose: they serve a diagnosis, and a false alarm costs more than a missed one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Subject:
    """`asked` finds it in a question, `named` in the name of a tool, `told` in its description.

    A description says "each time" and "in order to": there a word alone proves less than in a name.
    """

    name: str
    asked: re.Pattern[str]
    named: re.Pattern[str]
    told: re.Pattern[str]


def _subject(name: str, *, zh: str, en: str, told: str = "", named: str = "") -> Subject:
    asked = f"{zh}|{en}"
    described = f"{asked}|{told}" if told else asked
    return Subject(
        name,
        re.compile(asked, re.IGNORECASE),
        re.compile(f"{described}|{named}" if named else described, re.IGNORECASE),
        re.compile(described, re.IGNORECASE),
    )


SUBJECTS = (
    _subject(
        "time",
        zh=r"几点|现在.{0,4}时间|当前时间|什么时间了",
        en=r"\bwhat(?:'s| is)? (?:the )?(?:current )?time\b|\bcurrent time\b|\btime is it\b"
        r"|\btime now\b|\btime in [A-Z]|\btell me the time\b|\bwhat time\b",
        told=r"当前.{0,6}时间|现在的?时间|时区|\b(?:current|local) (?:date(?:,| and) )?time\b|\btime ?zones?\b"
        r"|\bclock\b|\bthe time (?:in|now|here)\b",
        named=r"^(?:get |fetch |show |tell |read |query )?(?:world |system )?(?:date ?)?time(?: now)?$|\bnow\b"
        r"|\btime in\b|^时间$",
    ),
    _subject(
        "date",
        zh=r"几号|星期几|周几|礼拜几|今天.{0,3}日期|今天是(?:什么|哪)|今年是哪",
        en=r"\b(?:what|which) (?:day|date)\b|\btoday'?s date\b|\bcurrent date\b",
        told=r"当前.{0,4}日期|星期|\bcurrent (?:date|time)\b|\btoday'?s date\b|\bweekday\b|\bclock\b",
        named=r"^(?:get |what )?(?:date|day|today|time|date ?time)$|\bnow\b",
    ),
    _subject(
        "weather",
        zh=r"天气|气温|下雨|下雪|降雨|温度多少",
        en=r"\bweather (?:in|at|for|like|today|tomorrow|now|there)\b|\b(?:current|today'?s) weather\b"
        r"|\bhow(?:'s| is) the weather\b|\b(?:the|weather) forecast\b|\bumbrella\b|\btemperature (?:in|at|outside|today|now)\b|\brain(?:ing)?\b"
        r"|\bsnow(?:ing)?\b",
        told=r"气象|\btemperature\b|\bweather\b|\bforecast\b",
    ),
    _subject(
        "quote",
        zh=r"股价|行情|股票.{0,6}(?:价|多少|涨|跌)|市值|收盘|开盘",
        en=r"\bstock price|\bshare price|\bprice of\b|\btrading at\b|\bprice for\b|\bquote for\b"
        r"|\bstock (?:doing|now|today)\b|\bmarket cap\b|\bticker\b",
        told=r"股票|\bstock quotes?\b|\bprices? of (?:an?|one|the) (?:stock|share)|\bshares\b",
        named=r"\bstocks\b|\bstock (?:value|info|data)\b|\bquotes?\b|^(?:get )?stock$",
    ),
    _subject(
        "price",
        zh=r"价格|多少钱|报价|售价|卖多少",
        en=r"\bprices?\b|\bhow much (?:is|are|does|do)\b|\bcosts?\b",
        told=r"股价|行情|\bpric(?:e|ing)\b|\bquotes?\b",
    ),
    _subject(
        "rate",
        zh=r"汇率|兑换|兑(?:人民币|美元|欧元|日元|港币)",
        en=r"\bexchange rate|\bconvert [\d.,]+ ?[a-z]{3}\b|\b[a-z]{3} to [a-z]{3}\b",
        told=r"外汇|\bcurrenc(?:y|ies)\b|\bforex\b|\bfx\b|\bexchange\b",
    ),
    _subject(
        "order",
        zh=r"订单|单号",
        en=r"\b(?:my|the|this|an?|our) order\b|\borders? (?:#|no|number|id|status|[A-Z0-9-]*\d)"
        r"|\border status\b|\bmy orders\b",
        told=r"(?<!in )\borders?\b(?! to\b)",
    ),
    _subject(
        "parcel",
        zh=r"快递|物流|包裹|运单|发货|到货",
        en=r"\bparcels?\b|\bpackage\b|\bshipments?\b|\bshipping status\b|\btrack(?:ing)? (?:number|my)\b"
        r"|\bdeliver(?:y|ed)\b",
        told=r"\blogistics\b|\btracking\b|\bshipping\b",
    ),
    _subject("refund", zh=r"退款|退钱|退货", en=r"\brefund|\bmoney back\b"),
    _subject(
        "page",
        zh=r"https?://|(?:打开|访问|抓取|读取|看看?).{0,4}(?:网页|网址|链接|网站)",
        en=r"\b(?:open|fetch|visit|read) (?:the |this |that )?(?:web ?)?(?:page|site|url|link)\b",
        told=r"网页|网址|\bweb ?pages?\b|\burl\b|\bfetch page\b|\bbrowse",
    ),
    _subject(
        "news",
        zh=r"新闻|头条|最新消息",
        en=r"\b(?:latest|any|recent|today'?s|the) (?:[a-z]+ )?(?:news|headlines?)\b(?! aside)|\bnews (?:about|on|of|from|today)\b",
        told=r"\bnews\b|\bheadlines?\b",
    ),
    _subject(
        "web",
        zh=r"(?:搜索|搜一下|上网查|网上查|检索)",
        en=r"\bsearch (?:for|the web|online)\b|\blook (?:it )?up online\b|\bgoogle\b",
        told=r"\bsearch\b|\bweb search\b",
    ),
    _subject(
        "mail",
        zh=r"(?:发|收|查|未读).{0,6}邮件|邮件.{0,4}(?:发|收)",
        en=r"^e?-?mail [A-Z]|\b(?:send|check|read|any|unread|new) (?:an? |my |the )?e?-?mails?\b|\binbox\b",
        told=r"邮件|\be?-?mails?\b|\binbox\b",
    ),
    _subject(
        "meeting",
        zh=r"日程|会议安排|(?:今天|明天|下午|上午|本周).{0,6}会议",
        en=r"\bmy (?:calendar|schedule|agenda|meetings?)\b|\b(?:what|which) meetings\b|\bmeetings? (?:today|tomorrow|this week)\b",
        told=r"会议|\bcalendar\b|\bmeetings?\b",
        named=r"\bschedule\b|\bevents?\b|\bagenda\b",
    ),
    _subject(
        "flight",
        zh=r"航班|机票|火车票|高铁票|车次",
        en=r"\bflights? (?:from|to|number|status|[A-Z]{2} ?\d)|\b(?:my|any|cheap\w*|next) flights?\b"
        r"|\btrain tickets?\b|\bplane tickets?\b",
        told=r"\bflights?\b|\btrains?\b",
    ),
    _subject(
        "place",
        zh=r"附近的?|怎么走|路线|导航|离.{1,12}多远",
        en=r"\bnear(?:by| me)\b|\bdirections to\b|\broute (?:to|from)\b|\bhow far\b|\bdistance\b",
        told=r"地图|\broutes?\b|\bdirections\b",
        named=r"\bmaps?\b|\bplaces\b",
    ),
    _subject(
        "balance",
        zh=r"余额|账户里|还剩多少钱",
        en=r"\b(?:my|account|current|remaining) balance\b|\bbalance (?:of|on) (?:my|the|account)\b",
        told=r"账户",
        named=r"^(?:get |check )?balance$",
    ),
    _subject("stock", zh=r"库存|还有货|有货吗", en=r"\bin stock\b|\binventory\b|\bstock level"),
    _subject(
        "invoice",
        zh=r"发票|账单",
        en=r"\b(?:my|the|this|last|unpaid) (?:invoice|bill)s?\b|\binvoices? \S*\d",
        told=r"\binvoices?\b|\bbills?\b|\bbilling\b",
    ),
    _subject(
        "ticket",
        zh=r"工单",
        en=r"\b(?:support |issue )?ticket (?:#|no|number|id|status|[A-Z0-9-]*\d)|\bmy tickets?\b",
        told=r"\btickets?\b",
    ),
    _subject(
        "user", zh=r"用户.{0,8}\d|会员.{0,8}\d", en=r"\b(?:user|customer|member) [A-Z0-9_-]*\d"
    ),
)
