"""Which tools a question is about, told by its words alone.

Points: a subject in common, the words of a tool's name, those of its description, values that a
parameter wants, and whether the question asks for a fact at all. A tool fits with `ENOUGH` points.
Questions that need no tool (an explanation, a text to write, small talk about the conversation,
plain arithmetic) fit none, because here a false alarm is worse than a missed one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from worker.core.subjects import SUBJECTS, Subject
from worker.core.wording import flaw

ENOUGH = 3.0
QUESTION_CHARS_MAX = 2_000  # what a question is about stands at its ends; the rest is material
_TEXT_CHARS_MAX = 2_000
_SAME_SUBJECT, _SAME_NAME, _SAME_WORD, _SAME_RUN, _LONG_RUN = 3.0, 2.0, 1.0, 2.0, 3.0

_WORD = re.compile(r"[a-z][a-z0-9]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_HAN = re.compile(r"[\u3400-\u9fff]{2,}")
_SENTENCE = re.compile(r"[。.!?\uff01\uff1f\n]")
_NARROW = {wide: wide - 0xFEE0 for wide in range(0xFF01, 0xFF5F)}  # full width to ASCII
_URL = re.compile(r"https?://\S+")
_CODE = re.compile(r"(?<![A-Za-z0-9])(?=[A-Za-z_-]*\d)[A-Za-z0-9][A-Za-z0-9_.-]{3,}")
_URL_NAMES = re.compile(r"url|link|uri|网址|链接", re.IGNORECASE)
_CODE_NAMES = re.compile(r"(?:_|^)(?:id|no|number|code|key)s?$|Id$|号", re.IGNORECASE)

# Words of names and descriptions that say nothing about what a tool is for.
_EMPTY_WORDS_TEXT = """
a about all also an and any api are as ask at be been by call can check complete current data date
day detail details do does done endpoint entry field fetch find for from function gave get give
given has have help how hour i if in info information input into is it its item items json kind
last latest left list look lookup made make many me minute month more much my name new not now
number object of on one or our output page please query read request result results retrieve return
returns run search second see send set should show so some string such system take tell text than
that the them then there these they this time to today tomorrow tool type up us use used user using
value values was way we week what when where which who whose why will with would year you your
"""
_EMPTY_WORDS = frozenset(_EMPTY_WORDS_TEXT.split())
_EMPTY_RUNS = re.compile(
    r"查询|查一下|查看|获取|返回|用户|信息|数据|结果|当前|最新|系统|内容|情况|列表|详情|相关|指定|根据"
    r"|输入|输出|参数|名称|编号|支持|使用|调用|进行|一个|一下|可以|需要|什么|多少|怎么样|怎么|如何"
    r"|哪些|哪个|哪里|是否|有没有|告诉|帮我|帮忙|请问|我的|我们|你们|他们|这个|那个|今天|现在|明天"
    r"|工具|接口|功能|必须|完整|以及|或者|并且|比如|例如|格式|字符|[的了吗呢吧啊是在有和与及或请把将被给对为就都也还]"
)

_NEEDS_NO_TOOL = re.compile(
    # about the conversation, or about whom one talks to
    r"上一[条个句次]|上面(?:的|说)|刚才|刚刚(?:说|提|问)|之前(?:说|提|问|聊)|你(?:刚)?(?:说|提到)[的过]"
    r"|我(?:刚|之前)(?:才)?(?:问|说)|我们的(?:对话|聊天)|你是谁|你叫什么|你(?:能|会|可以)(?:做|干)(?:什么|啥|些)"
    r"|\b(?:previous|last|earlier|your) (?:message|question|answer|reply|response)s?\b"
    r"|\byou (?:just |have |already )?(?:said|mentioned|told|wrote)\b|\bdid i (?:just )?(?:say|ask|tell)"
    r"|\b(?:our|this) conversation\b|\bwho are you\b|\bwhat can you do\b|\bwhat(?:'s| is) your name\b"
    # an explanation or an opinion
    r"|^\W*什么是|是什么意思|什么叫|的(?:定义|概念|原理|含义|区别|意思|技巧|好处|缺点|优点)|解释一下|介绍一下"
    r"|请解释|讲讲|科普|(?:怎么|如何|怎样)(?![样了吗呢啊]|$)[\u3400-\u9fff]|为什么|教程"
    r"|\bexplain\b|\bdefin(?:e|ition)\b|\bmeaning of\b|\bwhat does .{1,40} mean\b|\bhow (?:do|does|can|to|should)\b"
    r"|\bwhat (?:is|are) an? \b|\bdifference between\b|\bwhy\b|\bpros and cons\b|\btips\b|\btutorial\b"
    # a text to write or to work on
    r"|一般(?:来说|包括|要|需要)|通常|有什么不[同一]|哪个更|是哪家|是哪[个种]公司|翻译|润色|改写|续写|缩写成|概括|总结(?:以下|下面|这段|上述|一下)|写一?(?:首|篇|个|封|段|份|则)|编一个|讲个|[起取]个?.{0,4}名"
    r"|这段代码|写.{0,8}(?:代码|程序|函数)|生成 ?\d+ ?个"
    r"|\b(?:in general|generally|typically|slogan|brainstorm|come up with|code|def)\b|\bname for\b"
    r"|\b(?:fix|sort|rate) (?:this|these)\b|\bwhat company is\b|\bbirthday\b"
    # history
    r"|谁(?:发明|发现|写|唱|创[立办])|\b(?:invented|discovered|founded|composed|sang|wrote|born)\b"
    r"|\btranslate\b|\brewrite\b|\brephrase\b|\bproofread\b|\bsummari[sz]e (?:this|the following|it)\b"
    r"|\b(?:write|compose|draft) (?:an?|me|some|the)\b|\btell me a (?:joke|story)\b|\bpoem\b"
    # told not to
    r"|(?:不要|别|无需|不用|不必)(?:再)?(?:调用|使用|用|查)|\bwithout (?:using |calling )?(?:any )?tools?\b"
    r"|\b(?:do not|don't) (?:call|use|look)\b",
    re.IGNORECASE,
)
_ARITHMETIC = re.compile(
    r"(?:\s|[\d.,+*/x×÷^%()=?!\u3002-]|等于|多少|是|几|的|加|减|乘|除|以|和|请|计算|算|一下|结果"
    r"|what(?:'s| is)|calculate|compute|times|plus|minus|divided by|of|the|sum|product|square root)+",
    re.IGNORECASE,
)
_ASKS_A_FACT = re.compile(
    r"多少|几[个点号天时岁次]|查|什么时候|哪[里儿个天家位年]|谁|怎么样|如何\??$|吗\??\s*$|\?\s*$"
    r"|\bhow (?:much|many|long|far|old|big)\b|\b(?:what|when|where|who|which)\b|\b(?:find|look up|check|get|show)\b"
    r"|\bis there\b|\bdo (?:i|we) have\b",
    re.IGNORECASE,
)


class Described(Protocol):
    """A tool as a model sees it."""

    @property
    def name(self) -> str:
        """Its registered name."""
        ...

    @property
    def description(self) -> str:
        """What it tells the model about itself."""
        ...

    @property
    def parameters(self) -> dict[str, Any]:
        """Its JSON Schema."""
        ...


@dataclass(frozen=True, slots=True)
class ToolWords:
    """What a tool is about, read once from its name, description and parameters."""

    name: str
    own: frozenset[str]  # words of the name
    said: frozenset[str]  # words of the description
    runs: tuple[str, ...]  # runs of Chinese characters of the description
    subjects: frozenset[str]
    wants_url: bool = False
    wants_code: bool = False
    choices: frozenset[str] = field(default_factory=frozenset)  # values of enumerations
    required: tuple[str, ...] = ()
    flaw: str | None = None  # what in its description may keep a model from calling it


def words_of(tools: Iterable[Described]) -> tuple[ToolWords, ...]:
    """Read what each tool is about; worth keeping, for the tools of a worker seldom change."""
    return tuple(_tool_words(tool) for tool in tools)


@dataclass(frozen=True, slots=True)
class Fit:
    """A tool that a question is about, and the subjects that they have in common."""

    tool: ToolWords
    points: float
    subjects: frozenset[str]


def fitting(question: str, tools: Sequence[ToolWords]) -> tuple[Fit, ...]:
    """The tools that the question is about, the best first; none for a question that needs none."""
    text = _asked_part(question)
    if not tools or _NEEDS_NO_TOOL.search(text) or _ARITHMETIC.fullmatch(text):
        return ()
    asked = _Asked(text)
    scored = [Fit(tool, asked.points(tool), asked.subjects & tool.subjects) for tool in tools]
    return tuple(sorted((f for f in scored if f.points >= ENOUGH), key=lambda f: -f.points))


def may_need_a_tool(question: str) -> bool:
    """Whether the question is not plainly one that no tool has to answer."""
    text = _asked_part(question)
    return not (_NEEDS_NO_TOOL.search(text) or _ARITHMETIC.fullmatch(text))


def is_about(text: str, tool: ToolWords) -> bool:
    """Whether a statement is about what the tool tells."""
    subjects = (subject for subject in SUBJECTS if subject.name in tool.subjects)
    if any(subject.asked.search(text) or subject.told.search(text) for subject in subjects):
        return True
    return _Asked(_asked_part(text)).points(tool) >= ENOUGH


def things(fits: Sequence[Fit]) -> int:
    """How many different things are asked for: tools that share a subject are for one of them."""
    covered: set[str] = set()
    count = 0
    for fit in fits:
        if fit.subjects - covered:
            covered |= fit.subjects
            count += 1
    return max(count, min(1, len(fits)))


class _Asked:
    """A question, taken apart once for all tools."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lower = text.lower()
        self.words = _words(text)
        self.chinese = " ".join(_HAN.findall(_EMPTY_RUNS.sub(" ", text)))
        self.subjects = frozenset(s.name for s in SUBJECTS if s.asked.search(text))
        self.asks_a_fact = _ASKS_A_FACT.search(text) is not None
        self.has_url = _URL.search(text) is not None
        self.has_code = _CODE.search(text) is not None

    def points(self, tool: ToolWords) -> float:
        if "_" in tool.name and tool.name.lower() in self.lower:
            return _SAME_SUBJECT + _SAME_NAME
        points = _SAME_SUBJECT * len(self.subjects & tool.subjects)
        points += _SAME_NAME * len(self.words & tool.own)
        points += _SAME_WORD * len(self.words & (tool.said - tool.own))
        points += sum(_run_points(self.chinese, run) for run in tool.runs)
        if not points and not (tool.wants_url and self.has_url):
            return 0.0
        points += _SAME_NAME * (tool.wants_url and self.has_url)
        points += tool.wants_code and self.has_code
        points += any(choice in self.lower for choice in tool.choices)
        return points + self.asks_a_fact


def _asked_part(question: str) -> str:
    text = question.strip()
    if len(text) > QUESTION_CHARS_MAX:
        half = QUESTION_CHARS_MAX // 2
        text = f"{text[:half]}\n{text[-half:]}"
    return text.translate(_NARROW)


def _tool_words(tool: Described) -> ToolWords:
    name = _CAMEL.sub(" ", tool.name).replace("_", " ").replace("-", " ")
    description = tool.description[:_TEXT_CHARS_MAX]
    first = _SENTENCE.split(description.strip(), 1)[0]
    # The rest of a description mentions much that a tool is not for.
    subjects = _plain(name.strip(), first) or _plain("", description)
    plain = _without((subject.told for subject in subjects), description)
    properties = tool.parameters.get("properties") or {}
    return ToolWords(
        tool.name,
        own=_words(_without((subject.named for subject in subjects), name)),
        said=_words(plain),
        runs=tuple(dict.fromkeys(_HAN.findall(_EMPTY_RUNS.sub(" ", plain)))),
        subjects=frozenset(subject.name for subject in subjects),
        wants_url=any(_URL_NAMES.search(each) for each in properties),
        wants_code=any(_CODE_NAMES.search(each) for each in properties),
        choices=frozenset(_choices(properties.values())),
        required=tuple(map(str, tool.parameters.get("required") or ())),
        flaw=flaw(tool.description, properties),
    )


def _plain(name: str, description: str) -> tuple[Subject, ...]:
    return tuple(
        subject
        for subject in SUBJECTS
        if subject.named.search(name) or subject.told.search(description)
    )


def _without(patterns: Iterable[re.Pattern[str]], text: str) -> str:
    """The text without what the subjects count already, and more strictly."""
    for pattern in patterns:
        text = pattern.sub(" ", text)
    return text


def _choices(schemas: Iterable[Any]) -> Iterable[str]:
    for schema in schemas:
        for value in schema.get("enum") or () if isinstance(schema, dict) else ():
            if isinstance(value, str) and (len(value) > 3 or not value.isascii()):
                yield value.lower()


def _words(text: str) -> frozenset[str]:
    """Content words, singular: stocks and stock are one."""
    found = _WORD.findall(_CAMEL.sub(" ", text).lower())
    return frozenset(map(_stem, found)) - _EMPTY_WORDS


def _stem(word: str) -> str:
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 3 and word.endswith("s") and not word.endswith("ss"):
        return word[:-1]
    return word


def _run_points(question: str, run: str) -> float:
    """What the longest piece of a run that the question holds is worth."""
    longest = 0
    for start in range(len(run) - 1):
        while start + longest < len(run) and run[start : start + longest + 1] in question:
            longest += 1
    return _LONG_RUN if longest > 2 else _SAME_RUN if longest == 2 else 0.0
