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
    r"|at least|between|past|passed|beyond|both exceed))[^0-9,.;。,]{0,4}$",
    re.IGNORECASE,
)
ABOUT_AFTER = re.compile(r"[ ]?(?:左右|上下|多|余|以上|以下|出头|or so\b|ish\b|-ish\b)")
MORE_AFTER = re.compile(
    r"[ ]?(?:[个名分元块岁名人次%]|分钟|小时|公里|percent)?[ ]?(?:以上|以下|出头|多|余)"
)
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
    r"每|\b(?:one|a|1) [a-z]+(?: of [a-z]+)? (?:is|costs|weighs|covers)\b|\btimes\b|合(?=[ 0-9约])|可买|能买|相当于|平均|均价|均[约为]?[0-9]|年均|月均|日均|人均|单价|一(?:[斤份件股次张]|公斤|个(?!半))|/|÷"
    r"|\b(?:per|each|average[sd]?|apiece|a (?:head|piece|month|year|week|day|game|click|share|unit|gb)|works out)\b",
    re.IGNORECASE,
)
YEARLY = re.compile(r"每年|一年|年费|全年|年度|\b(?:year|yearly|annual(?:ly)?)\b", re.IGNORECASE)
POINTS = re.compile(r"[ ]?(?:points?\b|个?点(?!半|[0-9]))", re.IGNORECASE)
COMPARED = re.compile(
    r"占|进度|比例|(?<!概)率|省|超|(?<!最)[低高]|快|慢|达|成|的[ ]?(?=[0-9])|平均|\baverag|\bin (?:every )?(?:[0-9]|three|four|five|ten|twenty)|比|其中|增|涨|跌|降(?![水雨雪])|上升|差|贵|便宜|剩|余下|用了|用掉|完成|达成|相当于|[0-9]的"
    r"|即|也就是|\bthat(?:'s| is)\b|\b(?:of|than|up|down|more|less|share|used?|grew|growth|rose|fell|drop|dearer|cheaper|left|spare|free|remain(?:s|ing)?"
    r"|succeed|i\.e|sav(?:e|es|ed|ing)|tops?|beats?|ahead|behind|short|by|passed)",
    re.IGNORECASE,
)
TO_AN_HOUR = re.compile(r"[ ]?(?:to|[-–至到])[ ]?[0-9]")
NOW = re.compile(r"今天|现在|\b(?:today|now|it's|it is)\b", re.IGNORECASE)
MONTHLY = re.compile(r"每月|一个月|月均|\b(?:a month|per month|monthly)\b", re.IGNORECASE)
DAILY = re.compile(r"每天|每日|日均|一天|\b(?:a day|per day|daily)\b", re.IGNORECASE)
WEEKLY = re.compile(r"每周|一周|周均|\b(?:a week|per week|weekly)\b", re.IGNORECASE)
HOURLY = re.compile(r"每个?小时|\b(?:an hour|per hour|hourly)\b", re.IGNORECASE)
OCLOCK = re.compile(
    r"(?:\b(?:from|at|to|until|till|by|before|after|between|and|opens|closes)|[-–至到])[ ]?$",
    re.IGNORECASE,
)
STARTS = re.compile(
    r"开始|起(?!床)|开门|\b(?:starts?|begins?|opens?|starting|beginning)\b", re.IGNORECASE
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
FULL_STOP = re.compile(rf"[。!?\uff01\uff1f\n]|{STOP}")
TABLE_HEAD = re.compile(r"^\|[^\n]{0,300}", re.MULTILINE)
NEIGHBOUR = re.compile(
    r"次日|翌日|第二天|节后|之后|当天|前一天|后一天|\b(?:next|following|after|previous|day before)\b"
)
NO_DATA = re.compile(
    r"(?:数据|记录|结果|信息|情况|账单|报告)?(?:还|尚|暂)?(?:没有|未出|暂无|没出|查不到)"
    r"|\b(?:no|not) (?:data|figures|results|yet|available)\b|\bunavailable\b",
    re.IGNORECASE,
)
LASTING = re.compile(
    r"每公里|配速|用时|历时|共用|/[ ]?(?:km|mi)\b|剩|\b(?:per|pace|took|takes|in|left|under|over|remaining)\b",
    re.IGNORECASE,
)
GAP = re.compile(
    r"剩|余|空|差|少|多|比|贵|便宜|亏|赚|盈|远|还有|近(?=[ ]?[0-9一二两三四五六七八九十])|(?<!最)[高低]|长|短|快|慢|早|晚|领先|落后|超|欠|缺|省|未|没|不到?(?=[ ]?[0-9])|隔|跨"
    r"|\bdid not|n't\b|\b(?:spread|range|swing|gap|difference|unanswered|unused|fell|dropped|rose)\b"
    r"|\b(?:left|remain(?:s|ing)?|free|more|less|fewer|below|above|short|over|under|slower|faster"
    r"|behind|ahead|leads?|up|down|higher|lower|longer|shorter|to spare|spare|open|missing|heavier|lighter"
    r"|cheaper|dearer|exceeds?|than)\b",
    re.IGNORECASE,
)
RESTS = re.compile(
    r"剩|余|空|未|没|不|已|完成|满(?!意)|占用|使用|用[了掉]"
    r"|\b(?:left|rest|remain\w*|free|unused|not|still|occupied|taken|used|full|done|available|kept|stayed|open"
    r"|closed|completed|gone|booked|spent|on time|usable)\b",
    re.IGNORECASE,
)
SHARE_OF = re.compile(r"[ ](?:[a-z]{2,12}ed|came|did|were|are|is|have|has|said|got|made|went)\b")
AGE = re.compile(r"^.{0,2}[ ]?(?:周?岁|years? old|-year-old)")
USED_UP = re.compile(
    r"用完|够|撑|耗尽|吃完|\b(?:runs? out|lasts?|used up|empty|enough|gone)\b", re.I
)
BELOW_ZERO = re.compile(r"(?<![0-9])[-−–]$")
PART_END = re.compile(r"[、,;]|\band\b")
LISTED = re.compile(r"[ ]?(?:,|、|/|and|or|和|与|to|-|–)[ ]?(?:and |or )?")
SPEED = re.compile(r"时速|速度|每小时|\b(?:an|per) hour\b", re.IGNORECASE)
LABELLED = re.compile(r"[:(][ ]?(?:约|about |~|≈)?$")
FRACTION = re.compile(
    r"(?<!百)分之|一半|\b(?:half|third|quarter|fifth|sixth|eighth|tenth)|^one in", re.I
)
OF_TWO_SHARES = re.compile(
    r"平均|均|相差|差|合计|一共|比|\b(?:averag\w*|mean|together|than|by|total|combined|both|difference|gap)\b",
    re.IGNORECASE,
)
LABEL = re.compile(
    r"\b(?!(?:Step|Option|Part|Item|Tool|Result|Question|Attempt|Source|All|Only|Of|The|About)\b)"
    r"(?:[A-Z][a-z]{3,}|gate|platform|room|floor|dock|lane|track|zone|aisle)[ ]$"
)
AVERAGE = re.compile(
    r"平均|\baverag|\bmean\b|\ba (?:day|week|month)\b|每天|每周|日均", re.IGNORECASE
)
TAIL = re.compile(r"尾号|末尾|\b(?:ending|ends) (?:in|with)|\blast \w+ digits\b", re.IGNORECASE)
PER_UNIT = re.compile(
    r"每个?小时|一个?小时|每分钟|\b(?:an|per|every|each) (?:hour|minute)\b", re.IGNORECASE
)
_FEW = "[0-9]{1,3}|one|two|three|four|five|six|seven|eight|nine|ten"
OUT_OF = re.compile(rf"\b({_FEW}) (?:out )?of (?:the )?({_FEW})\b", re.IGNORECASE)
LETTERED = re.compile(r"[A-Za-z]{1,3}([0-9]{1,3}\.[0-9]{1,2})$")
COUNTER = re.compile(r"[支个件人盒瓶张本辆台次条只位名项粒片箱袋包]$")
COUNTED_THING = re.compile(r"[片粒盒瓶层楼本辆间张台场架次只件包袋杯箱]$")
OPERATED = re.compile(
    GAP.pattern
    + r"|"
    + RATE.pattern
    + r"|"
    + YEARLY.pattern
    + r"|各|往返|来回|[要需](?=[ ]?[0-9一二两三四五六七八九十])|共|合计|总|加|减|乘|和|全部|计|相当|折合|等于|即|也就是|[+×*÷/=−→]|[0-9] - [0-9]|平均|够"
    r"|\b(?:(?:sub)?total|points|by|together|sum|all|altogether|both|combined|in all|add(?:s|ed)? up|makes?|i\.e\.|that's|that is|so|times"
    r"|plus|minus|average|equals?|double[ds]?|half|twice|two|three|four|enough|need(?:s|ed)?|would|comes? to|per)\b"
    r"|[两二三四五六][位人个张份次盒晚]",
    re.IGNORECASE,
)
SINCE = re.compile(
    r"前|已|现在|到此刻|还有|剩|过去|至今|刚|\b(?:ago|since|until|left|from now|so far|now|in)\b",
    re.IGNORECASE,
)
FROM = re.compile(r"\b(?:from|of|over|across|in|for|all)[ ]$", re.IGNORECASE)
