"""From the bytes of a queue message or a request to a task, or to an error that names the field."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import replace

from worker.core.errors import TaskInvalid
from worker.core.sharding import is_part_of
from worker.core.task import Task
from worker.core.wireformat import task_from_wire

MAX_TASK_BYTES = 1_048_576
_QUEUE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_MAX_DIGITS = 1000  # of a whole number; int() would refuse more than 4300 in words for a programmer
_MAX_DEPTH = 64  # deeper nesting has no use in a task and costs stack everywhere it is read


def read_task(
    body: bytes, *, default_id: str, content_type: str | None = None, queued: bool = False
) -> Task:
    """Read a task: a JSON object, or plain UTF-8 text that becomes the input.

    With `content_type` the sender has said which of the two it is; without, a body that begins
    with `{` is JSON. A task that comes out of a queue (`queued`) has the queue's id, whatever id
    the body names: it is listed, cancelled and redriven by that one.

    Raises TaskInvalid (field and kind: too_large, invalid_json, schema).
    """
    if len(body) > MAX_TASK_BYTES:
        raise too_large(len(body), MAX_TASK_BYTES)
    text = decode_text(body)
    declared = None if content_type is None else "json" in content_type.lower()
    if declared is False or (declared is None and not text.lstrip().startswith("{")):
        return task_from_wire({"input": text}, default_id=default_id)
    task = task_from_wire(parse_json(text), default_id=default_id)
    return replace(task, id=default_id) if queued and task.id != default_id else task


def check_reply_to(task: Task, *, queue: str) -> None:
    """Refuse a reply_to that nothing could be published to. Raises TaskInvalid.

    `queue` is the queue that tasks come from: a result put there would be taken for a task.
    """
    if task.reply_to is None:
        return
    scheme, _, name = task.reply_to.partition(":")
    if scheme != "queue":
        raise TaskInvalid(
            f"reply_to: {task.reply_to[:40]!r} is not supported yet; write queue:<name>",
            field="reply_to",
        )
    if not _QUEUE_NAME.fullmatch(name):
        raise TaskInvalid(
            f"reply_to: {name[:40]!r} is no queue name (letters, digits, . _ -)", field="reply_to"
        )
    if is_part_of(name, queue):
        raise TaskInvalid(f"reply_to: {name!r} is the queue of the tasks", field="reply_to")


def reply_address(body: bytes, *, queue: str) -> str | None:
    """Where the result of a task goes, also of one that is rejected for something else.

    None where the body names no address, or none that anything could be published to.
    """
    try:
        said = parse_json(decode_text(body)) if len(body) <= MAX_TASK_BYTES else None
        address = said.get("reply_to") if isinstance(said, dict) else None
        task = task_from_wire({"input": "-", "reply_to": address}, default_id="-")
        check_reply_to(task, queue=queue)
    except TaskInvalid:
        return None
    return task.reply_to


def check_cost(task: Task, *, unpriced: Sequence[str], model: str) -> None:
    """Refuse a budget of money that could not be kept. Raises TaskInvalid.

    `model` is the one that would be asked, `unpriced` are those without a price.
    """
    if task.budget.cost is not None and model in unpriced:
        raise TaskInvalid(
            f"budget.cost: cannot be kept, this worker knows no price of {model!r}"
            " (LOOPWORKER_PRICES); leave it out, or use budget.tokens",
            field="budget.cost",
        )


def too_large(size: int, limit: int) -> TaskInvalid:
    """Build the error for a body over the limit."""
    return TaskInvalid(
        f"body: {size} bytes, at most {limit} are allowed", field="body", kind="too_large"
    )


def decode_text(body: bytes) -> str:
    """Read a body as UTF-8, without the mark that some programs put first. Raises TaskInvalid."""
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TaskInvalid(
            f"body: not UTF-8 (byte {error.start})", field="body", kind="invalid_json"
        ) from None


def parse_json(text: str) -> object:
    """Read JSON that strangers wrote: not too deep, without half characters. Raises TaskInvalid."""
    if _too_deep(text):
        raise TaskInvalid(
            f"body: nested more than {_MAX_DEPTH} deep", field="body", kind="invalid_json"
        )
    try:
        return _scrubbed(
            json.loads(text, parse_constant=_no_constant, parse_float=_finite, parse_int=_whole)
        )
    except (ValueError, RecursionError) as error:
        raise TaskInvalid(
            f"body: not valid JSON: {str(error)[:120]}", field="body", kind="invalid_json"
        ) from None


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    # Beyond the range it would become an infinity, which no JSON can say to the next reader.
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text[:40]} is too large a number")
    return number


def _whole(text: str) -> int:
    if len(text) > _MAX_DIGITS:
        raise ValueError(f"a number of {len(text)} digits; at most {_MAX_DIGITS} are read")
    return int(text)


def _too_deep(text: str) -> bool:
    # Counts brackets inside strings as well: that can only be too strict for a text with more
    # than 64 unclosed brackets in a row, so strings are skipped for those.
    if text.count("{") + text.count("[") <= _MAX_DEPTH:
        return False
    depth, inside, escaped = 0, False, False
    for char in text:
        if inside:
            if escaped:
                escaped = False
            elif char == "\\":
                escaped = True
            elif char == '"':
                inside = False
        elif char == '"':
            inside = True
        elif char in "{[":
            depth += 1
            if depth > _MAX_DEPTH:
                return True
        elif char in "}]":
            depth -= 1
    return False


def _scrubbed(value: object) -> object:
    # A lone surrogate (valid in JSON escapes) would break every later encoding to UTF-8.
    if isinstance(value, str):
        return value if value.isascii() else _SURROGATE.sub("\ufffd", value)
    if isinstance(value, list):
        return [_scrubbed(item) for item in value]
    if isinstance(value, dict):
        return {str(_scrubbed(key)): _scrubbed(item) for key, item in value.items()}
    return value
