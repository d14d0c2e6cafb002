"""A conversation that moves to another endpoint: what of it is portable.

A server accepts what it made itself: ids of any form and length, signatures of thoughts, fields of
its own. Another one may refuse all of that. So each assistant message says who minted it
(`MINTED_BY`, which is never sent), and before another endpoint reads it, it is put into the form
that every server takes: text and calls, nothing else, under short ids that are always the same for
the same id. What an endpoint misses in such messages, it teaches as a quirk.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import Any

from worker.core.messages import MINTED_BY, Message
from worker.model.normalise import said, shown_text
from worker.model.quirks import Quirk, Quirks

Body = dict[str, Any]

_PORTABLE = re.compile(r"[A-Za-z0-9]{9}\Z")
# The value that Gemini's documentation names for calls which another model has made.
NO_SIGNATURE = "skip_thought_signature_validator"


def minted(body: Body, by: str) -> Body:
    """Say in an assistant message which endpoint made it."""
    return {**body, MINTED_BY: by}


def with_origin(messages: Iterable[Message], endpoint: str) -> Iterator[tuple[Message, bool]]:
    """Tell of each message whether it is foreign to the endpoint.

    Results belong to the turn that they answer. A message that does not say who made it (an older
    journal, a history that a person wrote) is taken as it is.
    """
    foreign = False
    for message in messages:
        body = message.body
        role = body.get("role")
        if role == "assistant":
            foreign = body.get(MINTED_BY, endpoint) != endpoint
        elif role != "tool":
            foreign = False
        yield message, foreign


def portable(body: Body, quirks: Quirks) -> Body:
    """Put a message of another endpoint into the form that every server takes."""
    if body.get("role") == "tool":
        return with_short_ids(body)
    content = shown_text(said(body.get("content")))
    calls = body.get("tool_calls")
    made: Body = {"role": "assistant", "content": content}
    if not calls:
        return made
    made["content"] = content or None
    made["tool_calls"] = [_bare(call) for call in calls]
    if quirks.has(Quirk.DUMMY_SIGNATURE):  # only the first of parallel calls has one
        google = {"google": {"thought_signature": NO_SIGNATURE}}
        made["tool_calls"][0]["extra_content"] = google
    if quirks.has(Quirk.EMPTY_REASONING):
        made["reasoning_content"] = ""
    return made


def _bare(call: Any) -> Body:
    function = call.get("function") if isinstance(call, dict) else None
    function = function if isinstance(function, dict) else {}
    return {
        "id": portable_id(str(call.get("id"))),
        "type": "function",
        "function": {"name": function.get("name"), "arguments": function.get("arguments")},
    }


def portable_id(call_id: str) -> str:
    """Shorten a tool call id to nine letters and digits, always the same for the same id.

    The id of one server may be refused by another: too long, or not of the form that it makes.
    """
    if _PORTABLE.match(call_id):
        return call_id
    digest = hashlib.sha256(call_id.encode("utf-8", "replace")).digest()
    return base64.b32encode(digest)[:9].decode()


def with_short_ids(body: Body) -> Body:
    """Shorten the ids of a message and leave the rest as it is."""
    if isinstance(body.get("tool_call_id"), str):
        return {**body, "tool_call_id": portable_id(body["tool_call_id"])}
    if body.get("tool_calls"):
        calls = [{**call, "id": portable_id(str(call.get("id")))} for call in body["tool_calls"]]
        return {**body, "tool_calls": calls}
    return body
