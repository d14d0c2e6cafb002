"""Find the error in a body, whatever envelope it came in."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from worker.model.jsontext import decode, scrub
from worker.telemetry.redact import Redactor

_MAX_TEXT = 300
_REDACTOR = Redactor()  # by shape; the keys of the settings are masked where texts leave
_TITLE = re.compile(r"<title[^>]*>([^<]{1,200})", re.IGNORECASE)
_SPACE = re.compile(r"\s+")
_HTML = ("<!doctype html", "<html", "<head", "<body")


@dataclass(frozen=True, slots=True)
class ErrorBody:
    """What a server said about its error; every field is "" when it did not say."""

    message: str = ""
    code: str = ""
    kind: str = ""  # the `type` of the error
    param: str = ""
    inner: str = ""  # codes and reasons from further inside

    @property
    def words(self) -> str:
        """Everything that was said, in lower case, to look for known wordings."""
        return " ".join((self.code, self.kind, self.inner, self.message)).lower()


def error_of_bytes(body: bytes) -> ErrorBody:
    """Read the body of a refusal. Never raises; a page or plain text becomes the message."""
    try:
        value = decode(body)
    except ValueError:
        return ErrorBody(message=_plain_text(body))
    if isinstance(value, list) and value:  # one vendor wraps its errors in a list
        value = value[0]
    if isinstance(value, str):
        return ErrorBody(message=value)
    return error_of_value(value) or ErrorBody(message="")


def error_of_value(value: Any) -> ErrorBody | None:
    """Find the error in a decoded body; None when it holds none."""
    if not isinstance(value, dict):
        return None
    error = value.get("error")
    if isinstance(error, dict) and error and not _says_nothing(error, value):
        return _from_object(error, value)
    if isinstance(error, str) and error:
        kind = value.get("error_type") or value.get("type")
        message = value.get("message") or value.get("error_description") or error
        return ErrorBody(_text(message), _text(value.get("code")), _text(kind), inner=_text(error))
    base = value.get("base_resp")
    if isinstance(base, dict) and base.get("status_code"):
        return ErrorBody(_text(base.get("status_msg")), _text(base["status_code"]))
    if value.get("choices"):
        return None
    message = value.get("message") or value.get("detail") or value.get("errors") or value.get("msg")
    if message is None or isinstance(message, int | float | bool):
        return None
    return ErrorBody(
        _text(message), _text(value.get("code")), _text(value.get("type")), _param(value)
    )


def _says_nothing(error: dict[str, Any], outer: dict[str, Any]) -> bool:
    # Beside a reply, {"code": 0, "message": ""} is how some gateways say that all went well.
    return bool(outer.get("choices")) and not any(error.values())


def _from_object(error: dict[str, Any], outer: dict[str, Any]) -> ErrorBody:
    inner: list[str] = []
    for name in ("innererror", "inner_error", "metadata", "details", "status", "error"):
        part = error.get(name)
        if part:
            inner.append(_text(part))
    code = error.get("code")
    code = outer.get("code") if code is None else code
    message = (
        error.get("message") or error.get("msg") or error.get("detail") or outer.get("message")
    )
    return ErrorBody(_text(message), _text(code), _text(error.get("type")), _param(error),
                     " ".join(inner)[:2000])  # fmt: skip


def _param(error: dict[str, Any]) -> str:
    param = error.get("param")
    return param if isinstance(param, str) else ""


def _text(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return ""
    return str(value)[:4000]


def _plain_text(body: bytes) -> str:
    text = body[:20_000].decode("utf-8", "replace").strip()
    if is_page(body):
        title = _TITLE.search(text)
        return f"an HTML page: {title.group(1).strip()}" if title else "an HTML page"
    return text


def is_page(body: bytes) -> bool:
    """Tell whether a body is a page for people: the word of some proxy, not of the model."""
    return body[:200].decode("utf-8", "replace").lstrip("\ufeff \t\r\n").lower().startswith(_HTML)


def safe_text(text: str, limit: int = _MAX_TEXT) -> str:
    """Make a foreign text fit for an error message: one line, short, without keys."""
    text = _SPACE.sub(" ", scrub(text[: limit * 10])).strip()
    text = _REDACTOR.text(text)
    return text if len(text) <= limit else text[: limit - 1] + "…"
