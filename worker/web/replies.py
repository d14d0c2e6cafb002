"""How the API reads bodies and writes JSON: bounded, in time, and never broken by odd text."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from worker.core.errors import TaskInvalid

BODY_SECONDS = 30.0  # a client that sends slower than 1 MiB in this time is cut off
# Of a body that is too large so much is let pass by: most clients write all of it before they read
# why it was refused, and closed on before that, they hear of a broken pipe only.
PASSED_BYTES = 4 * 1_048_576
PASSED_SECONDS = 2.0


class Refusal(Exception):
    """A request that is answered with an error; `code` is the HTTP status."""

    def __init__(self, code: int, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.field = field


def encode(value: Any) -> bytes:
    """Write JSON as UTF-8; a lone surrogate stays an escape, as it must have been one before."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "backslashreplace")


def reply(value: Any, *, code: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Answer with JSON that no cache keeps."""
    return Response(
        encode(value) + b"\n",
        status_code=code,
        headers={
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
            **(headers or {}),
        },
        media_type="application/json",
    )


def refuse(
    code: int,
    message: str,
    *,
    field: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Answer with an error that names the field and says what was wrong."""
    return reply({"error": {"field": field, "message": message}}, code=code, headers=headers)


def media_of(request: Request) -> str:
    """The content type of a body that may be JSON or text, without parameters. Raises Refusal."""
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media not in ("application/json", "text/plain"):
        raise Refusal(415, "Send application/json or text/plain.", field="content-type")
    return media


def limit_of(request: Request, *, default: int = 50, most: int = 500) -> int:
    """Read `?limit=`."""
    text = request.query_params.get("limit", str(default))
    if not (text.isascii() and text.isdigit() and len(text) < 9 and 1 <= int(text) <= most):
        raise Refusal(422, f"limit: must be a whole number from 1 to {most}", field="limit")
    return int(text)


async def read_body(request: Request, *, limit: int) -> bytes:
    """Read a whole body of at most `limit` bytes. Raises TaskInvalid (too_large) or Refusal."""
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise Refusal(415, "Send the body as it is, not compressed.", field="content-encoding")
    declared = request.headers.get("content-length", "")
    body, chunks = bytearray(), request.stream()
    if declared.isdigit() and int(declared) > limit:
        # Who asks before it sends (`Expect: 100-continue`) hears the answer and sends nothing.
        if "expect" not in request.headers and int(declared) <= PASSED_BYTES:
            await _let_pass(chunks)
        raise too_large(limit)
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in chunks:
                body += chunk
                if len(body) > limit:
                    await _let_pass(chunks)
                    raise too_large(limit)
    except TimeoutError:
        raise Refusal(408, f"The body did not arrive within {BODY_SECONDS:g} s.") from None
    except ClientDisconnect:
        raise Refusal(400, "The client went away within the body.") from None
    return bytes(body)


async def _let_pass(chunks: AsyncGenerator[bytes, None]) -> None:
    passed = 0
    with contextlib.suppress(TimeoutError, ClientDisconnect):
        async with asyncio.timeout(PASSED_SECONDS):
            async for chunk in chunks:
                passed += len(chunk)
                if passed > PASSED_BYTES:
                    return


async def read_object(request: Request, *, limit: int = 16_384) -> dict[str, Any]:
    """Read a small JSON object; no body at all counts as an empty one. Raises Refusal."""
    body = await read_body(request, limit=limit)
    if not body.strip():
        return {}
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Refusal(400, f"The body is not JSON: {str(error)[:120]}", field="body") from None
    if not isinstance(value, dict):
        raise Refusal(422, "The body must be a JSON object.", field="body")
    return value


def too_large(limit: int) -> TaskInvalid:
    """Build the error for a body over the limit."""
    return TaskInvalid(
        f"body: more than {limit} bytes, at most {limit} are allowed",
        field="body",
        kind="too_large",
    )
