"""Hold the outcome of a dialect case against its `expect`: the assertion language of the cases."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

MISSING = object()
_STEPS = re.compile(r"[^.\[\]]+|\[[^\]]+\]")


def verify(
    case: dict[str, Any], got: dict[str, Any], requests: Sequence[Any], times: Sequence[float] = ()
) -> list[str]:
    """Return every way in which a case was not met; empty when it was.

    `got` holds status, answer and executed (a list of name and arguments), and perhaps seconds.
    `times` are the moments at which the requests came; without them no wait is checked.
    """
    expect = case["expect"]
    bad: list[str] = []
    if got["status"] != expect["final_status"]:
        bad.append(f"status {got['status']!r}, want {expect['final_status']!r}")
    if expect["final_answer"] is not None and got["answer"] != expect["final_answer"]:
        bad.append(f"answer {got['answer']!r}, want {expect['final_answer']!r}")
    wanted = expect["tool_calls_executed"]
    if wanted is not None and got["executed"] != wanted:
        bad.append(f"executed {got['executed']!r:.200}, want {wanted!r:.200}")
    every = expect.get("tool_calls_executed_all_equal")
    if every and any(call != every for call in got["executed"]):
        bad.append("executed other calls")
    if not _in_range(len(requests), expect["http_requests"]):
        bad.append(f"{len(requests)} requests, want {expect['http_requests']!r}")
    for assertion in expect["messages_sent_back"]:
        complaint = check(assertion, requests)
        if complaint:
            bad.append(f"request {assertion['request']}: {complaint}")
    bad += _waits(expect.get("waits", []), times)
    if expect.get("max_total_ms") and got.get("seconds", 0) * 1000 > expect["max_total_ms"]:
        bad.append(f"took {got['seconds']:.1f} s")
    return bad


def check(assertion: dict[str, Any], requests: Sequence[Any]) -> str | None:
    """Check one assertion about a request; return the complaint, None when it holds."""
    if assertion["request"] > len(requests):
        return f"request {assertion['request']} never came"
    request = requests[assertion["request"] - 1]
    path, operation = assertion["path"], assertion["op"]
    found, wanted = get(request, path), assertion.get("value")
    if operation == "absent":
        return None if found is MISSING or found is None else f"present: {found!r}"
    if found is MISSING:
        return f"missing {path}"
    try:
        holds = _OPERATIONS[operation](found, wanted, request)
    except (ValueError, TypeError, KeyError) as error:
        return f"{operation} on {found!r}: {error}"
    if holds:
        return None
    note = f" :: {unpaired(found)}" if wanted == "tool_pairs" else ""
    return f"{path} {operation} {wanted!r}, got {_text(found)[:160]}{note}"


def get(value: Any, path: str) -> Any:
    """Follow a path such as messages[-1].tool_calls[*].id; MISSING when it leads nowhere."""
    return _walk(value, _STEPS.findall(path))


def unpaired(messages: list[Any]) -> str | None:
    """Say what is wrong with the pairing of calls and results; None when all is well."""
    at = 0
    while at < len(messages):
        message = messages[at]
        at += 1
        if message.get("role") == "tool":
            return f"tool message at {at - 1} without a call"
        calls = message.get("tool_calls")
        if calls is None:
            continue
        answered = []
        while at < len(messages) and messages[at].get("role") == "tool":
            content = messages[at].get("content")
            if not isinstance(content, str) or not content.strip():
                return "empty tool content"
            answered.append(messages[at].get("tool_call_id"))
            at += 1
        complaint = _bad_calls(calls, answered)
        if complaint:
            return complaint
    return None


def _bad_calls(calls: list[Any], answered: list[Any]) -> str | None:
    if not calls:
        return "empty tool_calls"
    ids = [call.get("id") for call in calls]
    if any(not isinstance(call_id, str) or not call_id for call_id in ids):
        return f"bad id {ids!r}"
    if len(set(ids)) != len(ids):
        return f"duplicate ids {ids!r}"
    for call in calls:
        arguments = call["function"]["arguments"]
        if not isinstance(arguments, str) or not isinstance(json.loads(arguments), dict):
            return f"arguments not a JSON object string: {arguments!r}"
    return None if answered == ids else f"answers {answered!r} for calls {ids!r}"


def _walk(value: Any, steps: list[str]) -> Any:
    if not steps:
        return value
    step, rest = steps[0], steps[1:]
    if not step.startswith("["):
        return _walk(value[step], rest) if isinstance(value, dict) and step in value else MISSING
    if step == "[*]":
        found: list[Any] = []
        for item in value if isinstance(value, list) else []:
            part = _walk(item, rest)
            if part is MISSING:
                continue
            if "[*]" in rest and isinstance(part, list):
                found.extend(part)
            else:
                found.append(part)
        return found
    try:
        return _walk(value[int(step[1:-1])], rest)
    except (IndexError, TypeError, KeyError):
        return MISSING


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _in_range(number: int, allowed: Any) -> bool:
    if isinstance(allowed, int):
        return number == allowed
    return bool(allowed["min"] <= number <= allowed["max"])


def _invariant(found: Any, wanted: Any) -> bool:
    if wanted == "tool_pairs":
        return unpaired(found) is None
    return not any(
        one.get("role") == "tool" and other.get("role") == "user" for one, other in pairwise(found)
    )


def _waits(waits: list[Any], times: Sequence[float]) -> list[str]:
    bad = []
    for wait in waits:
        at = wait["before_request"] - 1
        if at < len(times):
            waited = (times[at] - times[at - 1]) * 1000
            if not wait["min_ms"] <= waited <= wait["max_ms"]:
                bad.append(f"waited {waited:.0f} ms, want {wait!r}")
    return bad


_OPERATIONS: dict[str, Callable[[Any, Any, Any], bool]] = {
    "eq": lambda v, w, _: v == w,
    "present": lambda v, w, _: True,
    "contains": lambda v, w, _: w in _text(v),
    "not_contains": lambda v, w, _: w not in _text(v),
    "matches": lambda v, w, _: isinstance(v, str) and re.search(w, v) is not None,
    "not_matches": lambda v, w, _: not (isinstance(v, str) and re.search(w, v)),
    "json_eq": lambda v, w, _: isinstance(v, str) and json.loads(v) == w,
    "is_json_object": lambda v, w, _: isinstance(v, str) and isinstance(json.loads(v), dict),
    "is_string": lambda v, w, _: isinstance(v, str) and v != "",
    "len_le": lambda v, w, _: len(v) <= w,
    "len_eq": lambda v, w, _: len(v) == w,
    "eq_path": lambda v, w, request: v == get(request, w) and bool(v),
    "unique": lambda v, w, _: len(set(v)) == len(v) and all(v),
    "none_eq": lambda v, w, _: w not in v,
    "roles_tail": lambda v, w, _: [message["role"] for message in v][-len(w) :] == w,
    "invariant": lambda v, w, _: _invariant(v, w),
}
