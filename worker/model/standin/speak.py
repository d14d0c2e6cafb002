"""Say what the tools returned, in the language of the question, and that it is a stand-in."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

RESULT_CHARS_MAX = 400
MARK = {"zh": "(离线模型)", "en": " (offline stand-in)"}
_TEXTS = {
    "zh": {
        "none": "没有工具可以回答这个问题;我只是按规则选择工具的替身,不是真正的模型。",
        "missing": "缺少信息:请提供 {names}(例如写 {first}=…)。",
        "failed": "{tool} 未能给出结果:{text}",
        "old": "{text}(旧数据,{age} 秒前)",
        "second": "{text}(来自备用来源)",
        "join": ";",
    },
    "en": {
        "none": "No tool can answer this; I only choose tools by rules and am no real model.",
        "missing": "Something is missing: please give {names}, for example as {first}=…",
        "failed": "{tool} gave no result: {text}",
        "old": "{text} (old data, from {age} s ago)",
        "second": "{text} (from an alternative source)",
        "join": "; ",
    },
}
# How the worker marks what is not a plain result: see core/texts.py.
_UNAVAILABLE = re.compile(r"^(.*?)\s?[((][^((]*(?:暂时不可用|is unavailable).*[))]\s*$", re.DOTALL)
_NOTE = re.compile(r"^\[(.*)\]$")
_OLD = re.compile(r"(?:旧数据|Stale).*?(\d+)\s*(?:秒|s\b)")
_SECOND = re.compile(r"备用来源|alternative source")
_ERROR = re.compile(
    r"^\s*(?:错误|error\b|未执行|not run\b|结果未知|outcome unknown|调用被中断)", re.I
)


@dataclass(frozen=True, slots=True)
class Told:
    """One tool result: which tool, with which arguments, and what it said."""

    tool: str
    arguments: dict[str, Any]
    content: str

    @property
    def failed(self) -> bool:
        """Whether it is an error, a stub or anything else but a value."""
        return bool(_ERROR.match(self.content) or _UNAVAILABLE.match(self.content))


def say_results(told: list[Told], language: str) -> str:
    """Tell all results in one answer. A failure is said to be one, never filled in."""
    parts = [_say(one, language) for one in told]
    return _TEXTS[language]["join"].join(parts) + MARK[language]


def say_missing(names: list[str], language: str) -> str:
    """Ask for what no argument could be found for."""
    joined = ", ".join(dict.fromkeys(names))
    text = _TEXTS[language]["missing"].format(names=joined, first=names[0])
    return text + MARK[language]


def say_nothing_fits(language: str) -> str:
    """Admit that no tool is for this."""
    return _TEXTS[language]["none"] + MARK[language]


def known_values(told: list[Told]) -> dict[str, Any]:
    """Collect what results told by name, for the arguments of a next call."""
    known: dict[str, Any] = {}
    for one in told:
        value = _json(one.content.split("\n[")[0])
        if isinstance(value, dict) and not one.failed:
            known.update(value)
    return known


def _say(one: Told, language: str) -> str:
    texts = _TEXTS[language]
    lines = one.content.strip().splitlines()
    notes = [line for line in lines if _NOTE.match(line) and _json(line) is None]
    body = "\n".join(line for line in lines if line not in notes).strip()
    text = _readable(body)[:RESULT_CHARS_MAX]
    unavailable = _UNAVAILABLE.match(body)
    if unavailable:
        return unavailable.group(1).strip() or texts["failed"].format(tool=one.tool, text=body)
    if one.failed:
        return texts["failed"].format(tool=one.tool, text=text)
    for note in notes:
        if old := _OLD.search(note):
            return texts["old"].format(text=text, age=old.group(1))
        if _SECOND.search(note):
            return texts["second"].format(text=text)
    return text


def _readable(text: str) -> str:
    value = _json(text)
    if isinstance(value, dict) and all(not isinstance(item, dict) for item in value.values()):
        return ", ".join(f"{name}: {item}" for name, item in value.items())
    return text


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None
