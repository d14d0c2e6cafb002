"""Read tool arguments without guessing.

Models write arguments as text, and the text is often nearly JSON. What can be read in exactly one
way is read; what would need a guess is refused with a sentence that the model can act on. Nothing
that was cut off is ever completed. The rungs, in order: absent means empty, strict JSON, the same
without a fence and trailing control tokens, without trailing commas, as a Python literal, as the
same object repeated, and finally unwrapped when it was encoded more than once.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from worker.model.jsontext import (
    INT_MAX,
    INT_MIN,
    MAX_DEPTH,
    NotStrict,
    depth_exceeds,
    encode,
    read_first,
    read_strictly,
    same,
    scrub,
    travels,
)

_INFO_WORD = re.compile(r"[\w+-]*")
_CONTROL = re.compile(r"(?:<[|｜][^<>|｜]{1,40}[|｜]>|</s>|<eos>|<end_of_turn>|</tool_call>)\Z")
_CONTROL_MAX = 50  # characters; how far back a control token can begin
_TRAILING_COMMA = re.compile(
    r'("(?:[^"\\]|\\.)*(?:"|\\?\Z))'  # text is kept, also when it never ends
    r"|,(?=\s*[}\]])",
    re.DOTALL,
)
# A text that a strict server would refuse although we can read it, or that needs scrubbing.
_REWRITE = re.compile(r"[\x00-\x1f]|\\u[dD]")
_MAX_LITERAL = 16_384  # characters; the parser for Python literals is slow
_MAX_UNWRAP = 3


class BadArguments(ValueError):
    """The arguments cannot be read; the text says why, for the model."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """Arguments that were read.

    `text` is the JSON object to put into the history: what the model wrote, byte for byte, when
    any server could read it. `complete` tells that they were written out as strict JSON: under
    `finish_reason: length` only such arguments are known not to have been cut.
    """

    value: dict[str, Any]
    text: str
    complete: bool


def read_arguments(raw: Any, *, max_bytes: int) -> Arguments:
    """Read the arguments of one call, whatever their outer form. Raises BadArguments."""
    if raw is None:
        return Arguments({}, "{}", complete=False)
    if isinstance(raw, dict):
        return _from_object(raw, max_bytes)
    if not isinstance(raw, str):
        raise BadArguments(f"the arguments must be a JSON object, got {kind_of(raw)}")
    if len(raw) > max_bytes or (len(raw) * 4 > max_bytes and _size(raw) > max_bytes):
        raise BadArguments(f"the arguments are too large: at most {max_bytes} bytes are allowed")
    text = raw.strip().lstrip("\ufeff").lstrip()
    if text in ("", "null", "None"):
        return Arguments({}, "{}", complete=False)
    value, plain = _climb(text)
    if not isinstance(value, dict):
        raise BadArguments(f"the arguments must be a JSON object, got {kind_of(value)}")
    if depth_exceeds(value, MAX_DEPTH):
        raise BadArguments(f"the arguments are nested more than {MAX_DEPTH} levels deep")
    if plain == "as written" and not _REWRITE.search(text):
        return Arguments(value, scrub(text), complete=True)
    value = scrub(value)
    return Arguments(value, encode(value).decode(), complete=plain != "repaired")


def kind_of(value: Any) -> str:
    """Name the JSON type of a value for a sentence."""
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false"}
    return "null" if value is None else names.get(type(value), "a number")


def _from_object(raw: dict[str, Any], max_bytes: int) -> Arguments:
    # Some servers send the object itself; it goes back as text, or strict servers refuse it.
    if depth_exceeds(raw, MAX_DEPTH):
        raise BadArguments(f"the arguments are nested more than {MAX_DEPTH} levels deep")
    value = scrub(raw)
    if not travels(value):
        raise BadArguments("the arguments hold a number that is too large")
    text = encode(value)
    if len(text) > max_bytes:
        raise BadArguments(f"the arguments are too large: at most {max_bytes} bytes are allowed")
    return Arguments(value, text.decode(), complete=True)


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _climb(text: str) -> tuple[Any, str]:
    """Return the value and how it was found: as written, unwrapped or repaired."""
    how = "as written"
    for _ in range(_MAX_UNWRAP + 1):
        try:
            value = read_strictly(text)
        except NotStrict as refusal:
            raise BadArguments(str(refusal)) from None
        except RecursionError:
            raise BadArguments("the arguments are nested too deeply") from None
        except ValueError as error:
            value, how = _repaired(text, error)
        if not isinstance(value, str):
            break
        text = value.strip()
        how = "unwrapped" if how == "as written" else how
    return ({} if value is None else value), how


def _repaired(text: str, error: ValueError) -> tuple[Any, str]:
    """Try every lossless repair; raise BadArguments with the first complaint when none fits."""
    text = without_control_tokens(unfenced(without_control_tokens(text)))
    for rung, how in _RUNGS:
        try:
            return rung(text), how
        except NotStrict as refusal:
            raise BadArguments(str(refusal)) from None
        except (ValueError, SyntaxError, MemoryError, RecursionError, Warning):
            continue
    complaint = str(error).split(":")[0]
    raise BadArguments(f"the arguments are not a complete JSON object ({complaint})") from None


def unfenced(text: str) -> str:
    """Take one Markdown fence off that encloses the whole text."""
    if not (text.startswith("```") and text.endswith("```") and len(text) >= 6):
        return text
    inner = text[3:-3]
    info = _INFO_WORD.match(inner)
    return inner[info.end() if info else 0 :].strip()


def without_control_tokens(text: str) -> str:
    """Take off the tokens by which a model ends its turn, when they leaked to the end."""
    while True:
        text = text.rstrip()
        token = _CONTROL.search(text, max(0, len(text) - _CONTROL_MAX))
        if token is None:
            return text
        text = text[: token.start()]


def _without_trailing_commas(text: str) -> Any:
    return read_strictly(_TRAILING_COMMA.sub(lambda match: match.group(1) or "", text))


def _python_literal(text: str) -> Any:
    if not text.startswith("{") or len(text) > _MAX_LITERAL:
        raise ValueError("not a Python dict")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # what Python only warns of (odd escapes) is not certain
        tree = ast.parse(text, mode="eval")
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            _refuse_repeated_keys(node)
    return _as_json(ast.literal_eval(tree))


def _refuse_repeated_keys(node: ast.Dict) -> None:
    # literal_eval keeps the last value silently; here that would be a guess.
    keys = [key.value for key in node.keys if isinstance(key, ast.Constant)]
    if len(keys) != len(node.keys) or not all(isinstance(key, str) for key in keys):
        raise ValueError("not a JSON object")
    if len(set(keys)) != len(keys):
        raise NotStrict("a field appears twice")


def _as_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(item) for item in value]
    if isinstance(value, bool | str) or value is None:
        return value
    if isinstance(value, int) and INT_MIN <= value <= INT_MAX:
        return value
    if isinstance(value, float) and abs(value) != float("inf"):
        return value
    raise ValueError("not a JSON value")


def _same_object_repeated(text: str) -> Any:
    first, end = read_first(text)
    if not isinstance(first, dict):
        raise ValueError("not an object")
    while end < len(text):
        following, end = read_first(text, end)
        if not same(first, following):
            raise NotStrict("two different objects were written; send exactly one JSON object")
    return first


_RUNGS: tuple[tuple[Callable[[str], Any], str], ...] = (
    (read_strictly, "repaired"),
    (_without_trailing_commas, "repaired"),
    (_python_literal, "repaired"),
    (_same_object_repeated, "unwrapped"),  # the last of them was not cut off
)
