"""Recover calls that leaked into the text.

Only the text of an assistant's reply is ever searched, never the result of a tool: otherwise a web
page could make calls. And only a reply that is markup as a whole counts, with at most some prose
before it: what is quoted in an explanation must not run.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from worker.model.arguments import unfenced, without_control_tokens
from worker.model.jsontext import NotStrict, read_first
from worker.model.markup import TextCall, function_tags, invoke_tags, json_calls, tool_call_tags

_START = re.compile(
    r"<tool_call>|<function=|<tool_calls>\s*<|<function_calls>|<minimax:tool_call>"
    r"|<invoke\s+name=|</?[|｜]{1,2}DSML[|｜]|\[TOOL_CALLS\]"
    r"|<\|tool_calls_section_begin\|>|<\|tool_call_begin\|>|<｜tool▁calls?▁begin｜>"
)
_TAG_END = re.compile(r"<[|｜][^<>|｜]{1,40}[|｜]>\Z")
_KIMI = (
    "<|tool_call_begin|>",
    "<|tool_call_argument_begin|>",
    "<|tool_call_end|>",
    re.compile(r"\s*<\|tool_calls_section_(?:begin|end)\|>"),
)
_DEEPSEEK = (
    "<｜tool▁call▁begin｜>",
    "<｜tool▁sep｜>",
    "<｜tool▁call▁end｜>",
    re.compile(r"\s*<｜tool▁calls▁(?:begin|end)｜>"),
)
_MISTRAL_NAME = re.compile(r"\s*([\w.-]{1,200})(?:\[CALL_ID\]([\w.:-]{1,200}))?(?:\[ARGS\])?")
_INDEX = re.compile(r":\d+\Z")


@dataclass(frozen=True, slots=True)
class TextCalls:
    """The calls that a text consists of.

    `certain` tells that the markup can mean nothing else, so that a mistake in it is worth telling
    the model; bare JSON may as well be an answer.
    """

    dialect: str
    prose: str
    calls: list[TextCall]
    certain: bool


def find_calls(text: str) -> TextCalls | None:
    """Find the calls that a reply's text consists of; None when it is an ordinary text."""
    started = _START.search(text)
    if started is None:
        return _bare_json(text)
    prose = text[: started.start()].strip()
    if prose.count("```") % 2 or prose.endswith("`"):
        return None
    marked = _without_end_tokens(text[started.start() :], started.group())
    dialect, reader = _reader_of(started.group(), marked)
    calls = reader(marked)
    return TextCalls(dialect, prose, calls, certain=True) if calls else None


def _without_end_tokens(text: str, opening: str) -> str:
    # A dialect's own closing tokens look like the tokens that end a turn.
    text = text.rstrip()
    if "tool" in opening and opening.startswith(("<|", "<｜")):
        return text
    while not text.endswith("</tool_call>"):
        token = _TAG_END.search(text, max(0, len(text) - 50))
        if token is not None and "DSML" not in token.group():
            text = text[: token.start()].rstrip()
        elif text.endswith("</s>"):
            text = text.removesuffix("</s>").rstrip()
        else:
            break
    return text


def _reader_of(opening: str, text: str) -> tuple[str, Callable[[str], list[TextCall] | None]]:
    if opening == "<tool_call>":
        if "<arg_key>" in text:
            return "glm", tool_call_tags
        return ("qwen_xml" if "<function=" in text else "hermes"), tool_call_tags
    if opening == "<function=":
        return "function_tag", function_tags
    if "DSML" in opening:
        return "dsml", invoke_tags
    if opening == "[TOOL_CALLS]":
        return "mistral", _mistral
    if opening.startswith("<|"):
        return "kimi", _kimi
    if opening.startswith("<｜"):
        return "deepseek", _deepseek
    if opening.startswith("<tool_calls>"):
        return "tool_calls", _wrapped
    return ("minimax" if "minimax" in opening else "invoke"), invoke_tags


def _wrapped(text: str) -> list[TextCall] | None:
    inner = text.removeprefix("<tool_calls>").removesuffix("</tool_calls>").strip()
    return tool_call_tags(inner) if inner.startswith("<tool_call>") else invoke_tags(inner)


def _bare_json(text: str) -> TextCalls | None:
    text = text.strip()
    if not text.startswith(("{", "[", "```", "<|python_tag|>")):
        return None
    dialect = "fence" if text.startswith("```") else "json"
    text = without_control_tokens(text.removeprefix("<|python_tag|>"))
    calls = json_calls(unfenced(text))
    return TextCalls(dialect, "", calls, certain=False) if calls else None


def _mistral(text: str) -> list[TextCall] | None:
    calls: list[TextCall] = []
    for piece in text.split("[TOOL_CALLS]")[1:]:
        piece = piece.strip().removesuffix(",")
        if piece.startswith("[{"):
            found = json_calls(piece)
            if found is None:
                return None
            calls += found
            continue
        name = _MISTRAL_NAME.match(piece)
        if name is None:
            return None
        rest = piece[name.end() :].strip()
        if rest and not rest.startswith("{"):
            return None
        whole = _is_one_value(rest)
        if whole is None:
            return None
        calls.append(TextCall(name.group(1), rest, name.group(2), whole=whole))
    return calls


def _is_one_value(text: str) -> bool | None:
    """Tell whether a text is one JSON value to its end; None when other text follows it."""
    try:
        return True if read_first(text)[1] >= len(text) else None
    except (ValueError, RecursionError):
        return False
    except NotStrict:
        return True


def _kimi(text: str) -> list[TextCall] | None:
    return _tokens(text, *_KIMI)


def _deepseek(text: str) -> list[TextCall] | None:
    return _tokens(text, *_DEEPSEEK)


def _tokens(
    text: str, begin: str, separator: str, end: str, wrapper: re.Pattern[str]
) -> list[TextCall] | None:
    """Read calls between special tokens: begin, name, separator, arguments, end."""
    calls: list[TextCall] = []
    before, *pieces = text.split(begin)
    if wrapper.sub("", before).strip():
        return None
    for piece in pieces:
        inside, closed, after = piece.partition(end)
        if wrapper.sub("", without_control_tokens(after)).strip():
            return None
        header, _, arguments = inside.partition(separator)
        header, arguments = header.strip(), arguments.strip()
        if header == "function" and "```" in arguments:  # name, newline, fenced arguments
            header, _, arguments = arguments.partition("\n")
        call_id = header if _INDEX.search(header) else None
        name = _INDEX.sub("", header)
        calls.append(TextCall(name, unfenced(arguments.strip()), call_id, whole=bool(closed)))
    return calls
