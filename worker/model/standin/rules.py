"""From a valid request to a message: call tools, or answer with what they returned."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

from worker.core.texts import language_of
from worker.model.standin.choose import choose
from worker.model.standin.fill import fill
from worker.model.standin.speak import (
    Told,
    known_values,
    say_missing,
    say_nothing_fits,
    say_results,
)

ROUNDS_MAX = 4  # of tool calls for one question; then it answers with what it has


def respond(body: dict[str, Any]) -> dict[str, Any]:
    """Return the assistant message for a request that `strict` had no objection to."""
    question, told, rounds = _since_question(body["messages"])
    language = language_of(question)
    tools = body.get("tools") or []
    choice = body.get("tool_choice", "auto")
    missing: list[str] = []
    if tools and choice != "none" and rounds < ROUNDS_MAX:
        wanted, missing = _wanted(question, tools, told, choice)
        if body.get("parallel_tool_calls") is False:
            wanted = wanted[:1]
        if wanted:
            return _calling(wanted, len(body["messages"]))
    if told:
        return _answering(say_results(told, language))
    if missing:
        return _answering(say_missing(missing, language))
    return _answering(say_nothing_fits(language))


def _wanted(
    question: str, tools: list[dict[str, Any]], told: list[Told], choice: Any
) -> tuple[list[tuple[str, dict[str, Any]]], list[str]]:
    """Return the calls that are still to make, and the parameters that nothing is known for."""
    functions = choose(question, tools)
    if isinstance(choice, dict):
        name = choice["function"]["name"]
        functions = [tool["function"] for tool in tools if tool["function"]["name"] == name]
        functions = [] if told else functions
    elif choice == "required" and not functions and not told:
        functions = [tools[0]["function"]]
    known = known_values(told)
    answered = {one.tool for one in told}
    made = [(one.tool, one.arguments) for one in told]
    wanted: list[tuple[str, dict[str, Any]]] = []
    missing: list[str] = []
    for function in functions:
        name = function["name"]
        # Results help to fill a tool that has not been called; a tool that has answered is asked
        # only for what the question itself still leaves open, never because of its own answer.
        filled = fill(function, question, {} if name in answered else known)
        if name not in answered:
            missing += filled.missing
        wanted += [(name, one) for one in filled.sets if (name, one) not in made]
    return wanted, missing


def _since_question(messages: list[dict[str, Any]]) -> tuple[str, list[Told], int]:
    """Return the last question, the results that came since, and in how many rounds."""
    start = max(
        (place for place, message in enumerate(messages) if message["role"] == "user"), default=-1
    )
    question = _text(messages[start]["content"]) if start >= 0 else ""
    calls: dict[str, tuple[str, dict[str, Any]]] = {}
    told: list[Told] = []
    rounds = 0
    for message in messages[start + 1 :]:
        if message.get("tool_calls"):
            rounds += 1
            for call in message["tool_calls"]:
                function = call["function"]
                calls[call["id"]] = (function["name"], json.loads(function["arguments"]))
        elif message["role"] == "tool":
            name, arguments = calls[message["tool_call_id"]]
            told.append(Told(name, arguments, _text(message["content"])))
    return question, told, rounds


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content or ())


def _calling(wanted: list[tuple[str, dict[str, Any]]], place: int) -> dict[str, Any]:
    calls = []
    for number, (name, arguments) in enumerate(wanted):
        text = json.dumps(arguments, ensure_ascii=False)
        digest = hashlib.sha256(f"{place}/{number}/{name}/{text}".encode()).digest()
        function = {"name": name, "arguments": text}
        call_id = base64.b32encode(digest)[:9].decode()
        calls.append({"id": call_id, "type": "function", "function": function})
    return {"role": "assistant", "content": None, "tool_calls": calls}


def _answering(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}
