"""What may stand around a figure in an answer, and what it says of it: exactness, a rate, a hedge.

Each pattern is held against the clause, the sentence, or the few characters before or after.
"""

from __future__ import annotations

import re

ABOUT_BEFORE = re.compile(
    r"(?:约|大概|差不多|近|接近|左右|大致|≈|~|\b(?:about|around|roughly|approximately|approx\.?|some|nearly|almost"
    r"|just|close to|circa|c\.|say))[^0-9,.;。,]{0,6}$",
    re.IGNORECASE,
)
MORE_BEFORE = re.compile(
    r"(?:近|接近|超过?|逾|不到|不足|多于|大于|上|\b(?:nearly|almost|over|under|above|below|more than|less than|up to"
    r"|at least))[^0-9,.;。,]{0,4}$",
    re.IGNORECASE,
)
ABOUT_AFTER = re.compile(r"[ ]?(?:左右|上下|多|余|以上|以下|出头|or so\b|ish\b|-ish\b)")
COUNTED = re.compile(
    r"[ ]?(?:[个项条只支笔次家款种类部份件台点步轮则样处]|/[ ]?[0-9]"
    r"|(?:of|out of|more|other|further|missing|remaining|requested|available|tools?|results?|items?|values?|quotes?|questions?"
    r"|parts?|answers?|attempts?|times|tries|requests?|calls?|figures?|prices?|metrics?|numbers?|sources?|things"
    r"|pieces|records?|entries|steps?|are\b|is\b|were\b|was\b)\b)",
    re.IGNORECASE,
)
COUNTED_BEFORE = re.compile(
    r"(?:第|仅|只有|共|\b(?:all|of|only|step|number|no\.|just|the|tried|failed))[ ]?$",
    re.IGNORECASE,
)
NOTHING = re.compile(r"[\s.,;:!?)\u3002\uff0c\uff1b]*\Z")
PER = re.compile(r"(?:/|\bper|每)[ ]?$", re.IGNORECASE)
NIGHTS = frozenset({"今晚", "tonight", "Tonight"})
HOW_MANY = re.compile(r"(?:how many|any|number of|多少|几)[^,.?;\uff0c\uff1f]*$", re.IGNORECASE)
NOUN = re.compile(r"[ ]?([A-Za-z]{3,20}|[\u3400-\u9fff]{1,2})(?:[ ]([A-Za-z]{3,20}))?")
AGAIN = re.compile(
    r"再(?:试|查|问|看|来|次|确认|核实|联系|重试|刷新)|重试|稍后|改日|恢复后再|之?后可以?再"
    r"|\b(?:try|check|ask|come|call|look)(?: \w+){0,2} (?:again|back)\b|\bretry\b|\bagain (?:in|at|after)\b",
    re.IGNORECASE,
)
MISSING = re.compile(
    r"查不到|不可用|无法|没有|未能|拿不到|不清楚|不知道|不了|没查|未知|暂无|缺|是否|什么"
    r"|\b(?:unavailable|could not|couldn't|cannot|can't|not available|no data|no figure|don't|unknown|unable"
    r"|missing|whether|won't|isn't)\b",
    re.IGNORECASE,
)
RATE = re.compile(
    r"每|合(?=[ 0-9约])|可买|能买|相当于|平均|均价|人均|单价|一(?:[斤份件股次张]|公斤|个(?!半))|/|÷"
    r"|\b(?:per|each|average[sd]?|apiece|a (?:head|piece|month|year|week|day|game|click|share|unit|gb)|works out)\b",
    re.IGNORECASE,
)
YEARLY = re.compile(r"每年|一年|年费|全年|年度|\b(?:year|yearly|annual(?:ly)?)\b", re.IGNORECASE)
POINTS = re.compile(r"[ ]?(?:points?\b|个?点(?!半|[0-9]))", re.IGNORECASE)
COMPARED = re.compile(
    r"占|比|其中|增|涨|跌|降(?![水雨雪])|上升|高出|低于|差|贵|便宜|剩|余下|用了|用掉|完成|达成|相当于|[0-9]的"
    r"|\b(?:of|than|up|down|more|less|share|used?|grew|growth|rose|fell|drop|dearer|cheaper|left|spare|free|remain(?:s|ing)?"
    r"|succeed|i\.e)",
    re.IGNORECASE,
)
TO_AN_HOUR = re.compile(r"[ ]?(?:to|[-–至到])[ ]?[0-9]")
NOW = re.compile(r"今天|现在|\b(?:today|now|it's|it is)\b", re.IGNORECASE)
MONTHLY = re.compile(r"每月|一个月|月均|\b(?:a month|per month|monthly)\b", re.IGNORECASE)
OCLOCK = re.compile(
    r"(?:\b(?:from|at|to|until|till|by|before|after|between|and|opens|closes)|[-–至到])[ ]?$",
    re.IGNORECASE,
)
STOP = r"(?<![iI]\.e)(?<!e\.g)(?<!approx)[.](?=\s|$)"
CLAUSE_END = re.compile(rf"[。!?;,\uff01\uff1f\uff1b\uff0c\n]|{STOP}")
SENTENCE_END = re.compile(rf"[。!?;\uff01\uff1f\uff1b\n]|{STOP}")
GLUED = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?)[A-Za-z/]{1,6}$")
ORDINAL = re.compile(r"(?:st|nd|rd|th)\b")
IS_WORTH = re.compile(
    r"^[^,;.\u3002\uff0c\uff1b]*(?:=|≈|约|合|换|兑|为|需|要|\b(?:is|are|equals?|comes?|costs?|buys?|gets?)\b)"
    r"[^,;.\u3002\uff0c\uff1b]*$"
)
