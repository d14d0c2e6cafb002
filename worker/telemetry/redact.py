"""The one place where secrets are removed.

Three ways to recognise one: by its *value* (configured literals: API key, HTTP token), by the *name*
of the field that holds it, and by its *shape* in free text. Whoever writes text that leaves the
process (log line, span, label, progress, dead letter) passes it through a `Redactor` first.

Most strings hold nothing secret, so every path starts with one search for hints, which costs a
microsecond or two. Each secret shape must contain a hint; a test proves it. All patterns are
anchored at a literal and bounded, so no text makes them slow.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any
from urllib.parse import quote

MASK = "[redacted]"
CONTENT_POLICIES = ("none", "hash", "redacted", "full")
CONTENT_CHARACTERS_MAX = 512  # of user input in a log line; enough to recognise a case
FULL_CHARACTERS_MAX = 16_384
TEXT_CHARACTERS_MAX = 4_096  # also the attribute limit of most trace stores
DEPTH_MAX = 8
ITEMS_MAX = 200

# A literal shorter than this, or one of the words that local servers want in place of a key, would
# blacken ordinary text.
LITERAL_CHARACTERS_MIN = 6
NO_SECRETS = frozenset({"ollama", "lm-studio", "no-key", "not-needed", "sk-no-key-required"})

# fmt: off
_NAMED = (
    "password", "passwd", "passphrase", "secret", "apikey", "accesskey", "privatekey",
    "authorization", "credential", "cookie", "signature", "密码", "口令", "密钥", "令牌", "验证码",
)
# fmt: on
_NAMED_AT_END = ("token", "tokens", "pwd", "auth", "sig")


# What every secret contains, by shape or by the name of its field. Each alternative begins with the
# rarest letter of its word, for the search skips to those letters: a microsecond or two per line,
# where one look for each of fifty words took thirty. It is applied to lower case.
_HINTS = (
    r"k(?:ey|_(?:live|test)_|(?<=gsk)_|(?<=ak)ia|(?<=cook)ie|(?<=sk)(?<!task)-|(?<=tok)en(?!s\":[0-9]))"
    r"|p(?:wd|ass(?:[-_ ]?w|phrase)|(?<=nvap)i-)|u(?<=au)th(?:[\"'\\:= ]|oriz)"
    r"|c(?:redential|ode=|(?<=sec)ret)|b(?:earer|asic)|x(?:ox|ai-)|j(?<=eyj)|z(?<=aiz)a|f(?<=hf)_"
    r"|g(?:h[pousr]_|ithub_pat|lpat-|(?<=sig)(?:nature|[\"'\\:= ]))|/(?<=:/)/|-----begin"
    r"|s(?:essionid|essid)|密[码钥]|口令|令牌|验证码"
)
_HINT = re.compile(_HINTS)
_HINT_IN_JSON = re.compile(_HINTS.replace("密[码钥]", "密码|密钥").encode())
_AWS = "ASIA"  # lower case would be a continent

_NAME = (
    r"(?<![A-Za-z])(api[-_ ]?key|access[-_ ]?key(?:[-_ ]?id)?|private[-_ ]?key|secret(?:[-_ ]?key)?"
    r"|token|password|passwd|passphrase|pwd|credentials?|signature)(?![A-Za-z])"
)
# The same words at the end of a camelCase name, and the cookies that need no such word.
_CAMEL = (
    r"([A-Za-z0-9_]{1,64}(?:Token|Password|Passwd|Secret|ApiKey|AccessKey|PrivateKey|Credentials?)"
    r"|(?:js|php|asp)?(?:sessionid|sessid)|csrf_?token|xsrf_?token)(?![A-Za-z])"
)
_VALUE = r"""(?:\\?"[^"\\]{1,4096}|'[^'\\]{1,4096}|[^\s"'&,;}\\]{1,4096})"""
_SHAPES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, flags), replacement)
    for pattern, flags, replacement in (
        (
            r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----"
            r"(?:(?!-----END)[\s\S])*(?:-----END[A-Z0-9 ]{0,50}-----)?",
            0,
            MASK,
        ),
        (r"(://)([^\s/@:\"']{0,256}):[^\s/\"']{1,256}@", 0, rf"\1\2:{MASK}@"),
        # Alone it is a name to a database; to NATS, and to most that speak HTTP, it is a token.
        (r"\b((?:nats|tls|https?)://)[^\s/@:\"']{1,256}@", re.I, rf"\1{MASK}@"),
        (r"((?:set-)?cookie\\?[\"']?\s{0,4}[:=])\s{0,4}[^\r\n\"}]{1,4096}", re.I, rf"\1 {MASK}"),
        (
            r"(authorization\\?[\"']?\s{0,4}[:=]\s{0,4}\\?[\"']?)"
            r"(?:(?:bearer|basic|digest|token|apikey)\s{1,4})?[^\s\"',;\\]{1,4096}",
            re.I,
            rf"\1{MASK}",
        ),
        (r"\b(bearer)\s{1,4}[A-Za-z0-9._~+/=-]{8,4096}", re.I, rf"\1 {MASK}"),
        (r"\b(basic)\s{1,4}(?=[A-Za-z+/]{0,64}[0-9=])[A-Za-z0-9+/=]{8,4096}", re.I, rf"\1 {MASK}"),
        # With `*`: servers of models show the ends of a key that they refuse.
        (r"(?<![A-Za-z0-9])sk-[A-Za-z0-9_*-]{8,512}", 0, MASK),
        (r"(?<![A-Za-z0-9])(?:gsk_|xai-|nvapi-)[A-Za-z0-9_*-]{16,512}", 0, MASK),
        (r"(?<![A-Za-z0-9])[spr]k_(?:live|test)_[A-Za-z0-9]{8,512}", 0, MASK),
        (r"(?<![A-Za-z0-9])(?:AKIA|ASIA)[A-Z0-9]{16}", 0, MASK),
        (r"(?<![A-Za-z0-9])gh[pousr]_[A-Za-z0-9]{16,512}", 0, MASK),
        (r"github_pat_[A-Za-z0-9_]{16,512}|glpat-[A-Za-z0-9_-]{16,512}", 0, MASK),
        (r"(?<![A-Za-z0-9])xox[abeoprs]-[A-Za-z0-9-]{10,512}", 0, MASK),
        (r"AIza[A-Za-z0-9_-]{30,128}|(?<![A-Za-z0-9])hf_[A-Za-z0-9]{20,128}", 0, MASK),
        (
            r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,8192}\.[A-Za-z0-9_-]{4,8192}(?:\.[A-Za-z0-9_-]{0,8192})?",
            0,
            MASK,
        ),
        (
            r"([?&](?:key|sig|token|code|auth|access_token|api_?key|x-amz-[a-z-]{1,32}"
            r"|x-goog-[a-z-]{1,32})=)[^&\s\"'#]{1,4096}",
            re.I,
            rf"\1{MASK}",
        ),
        (rf"{_CAMEL}(\\?[\"']?\s{{0,4}}[:=]\s{{0,4}}){_VALUE}", 0, rf"\1\2{MASK}"),
        (
            rf"{_NAME}(\\?[\"']?\s{{0,4}}(?:is\s{{0,4}})?[:=：]\s{{0,4}}){_VALUE}",
            re.I,
            rf"\1\2{MASK}",
        ),
        (
            r"(密码|口令|密钥|令牌|验证码)(\\?[\"']?\s{0,4}(?:是|为|[:：=])\s{0,4}\\?[\"']?)"
            r"[^\s,，。;；\"'\\]{1,256}",
            0,
            rf"\1\2{MASK}",
        ),
    )
)
_CARD = re.compile(r"(?<![0-9A-Za-z])[3-6](?:[ -]?[0-9]){12,18}(?![0-9A-Za-z])")
_CITIZEN = re.compile(
    r"(?<![0-9A-Za-z])[1-9][0-9]{5}(?:18|19|20)[0-9]{2}(?:0[1-9]|1[0-2])"
    r"(?:0[1-9]|[12][0-9]|3[01])[0-9]{3}[0-9Xx](?![0-9A-Za-z])"
)
_PHONE = re.compile(
    r"(?<![0-9A-Za-z])(?:\+?86[- ]?)?1[3-9][0-9](?:[- ]?[0-9]{4}){2}(?![0-9A-Za-z])"
)
_SURROGATES = re.compile("[\ud800-\udfff]")


class Redactor:
    """Removes secrets from text and from nested values. Safe to use from any thread."""

    def __init__(self, secrets: Iterable[str | None] = (), *, content: str = "redacted") -> None:
        if content not in CONTENT_POLICIES:
            raise ValueError(f"content policy {content!r}; allowed: {', '.join(CONTENT_POLICIES)}")
        self.content_policy = content
        self._literals: tuple[str, ...] = ()
        self._literals_in_json: tuple[bytes, ...] = ()
        for secret in secrets:
            if secret:
                self.add_secret(secret)

    def __repr__(self) -> str:
        return f"Redactor({len(self._literals)} literals; content {self.content_policy})"

    def add_secret(self, secret: str) -> None:
        """Remove this very text from now on, wherever it stands, also where a URL carries it."""
        if len(secret) < LITERAL_CHARACTERS_MIN or secret.lower() in NO_SECRETS:
            return
        forms = {secret, quote(secret, safe="")}
        # The longest first: a secret may be the beginning of another.
        self._literals = tuple(sorted({*self._literals, *forms}, key=len, reverse=True))
        self._literals_in_json = tuple(
            json.dumps(clean(text), ensure_ascii=False)[1:-1].encode() for text in self._literals
        )

    def text(self, text: str, *, limit: int = TEXT_CHARACTERS_MAX) -> str:
        """Return the text without secrets and lone surrogates, at most `limit` characters long."""
        if len(text) > limit:
            text = text[: limit + TEXT_CHARACTERS_MAX]  # a secret may lie across the cut
        if not text.isascii():
            text = clean(text)
        if self.is_suspect(text):
            text = self._without_secrets(text)
        return text if len(text) <= limit else text[: limit - 1] + "…"

    def is_suspect(self, text: str) -> bool:
        """Say whether a text may hold a secret, by shape or value. Quick, and never wrongly no."""
        if _HINT.search(text.lower()) is not None or _AWS in text:
            return True
        for literal in self._literals:  # noqa: SIM110  (any() over a generator costs double)
            if literal in text:
                return True
        return False

    def line_is_suspect(self, line: bytes) -> bool:
        """Say the same of a rendered line of JSON, where a field's name may tell it as well."""
        if _HINT_IN_JSON.search(line.lower()) is not None or b"ASIA" in line:
            return True
        for literal in self._literals_in_json:  # noqa: SIM110
            if literal in line:
                return True
        return False

    def value(self, value: Any, *, limit: int = TEXT_CHARACTERS_MAX) -> Any:
        """Return a copy of a nested value, with named and shaped secrets masked.

        What comes back consists of dicts with text keys, lists, texts, numbers and None, whatever
        went in: cycles end at a depth, strange objects become their (masked) repr.
        """
        return self._value(value, limit, 0)

    def content(self, text: str, *, policy: str | None = None) -> str:
        """Return what may be told of a user's or a model's words under LOG_CONTENT."""
        match policy or self.content_policy:
            case "none":
                return ""
            case "hash":
                digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
                return f"sha256:{digest[:16]}"
            case "full":
                return self.text(text, limit=FULL_CHARACTERS_MAX)
            case _:
                bounded = text[: CONTENT_CHARACTERS_MAX + TEXT_CHARACTERS_MAX]
                return self.text(without_persons(bounded), limit=CONTENT_CHARACTERS_MAX)

    def _without_secrets(self, text: str) -> str:
        for literal in self._literals:
            text = text.replace(literal, MASK)
        for pattern, replacement in _SHAPES:
            text = pattern.sub(replacement, text)
        return text

    def _value(self, value: Any, limit: int, depth: int) -> Any:
        if isinstance(value, str):
            return self.text(str(value), limit=limit)
        if value is None or isinstance(value, bool | float):
            return value
        if isinstance(value, int):
            return value if -(2**63) <= value < 2**64 else self.text(_number(value), limit=limit)
        if depth >= DEPTH_MAX:
            return "…"
        if isinstance(value, Mapping):
            return self._mapping(value, limit, depth)
        if isinstance(value, list | tuple | set | frozenset):
            return [self._value(item, limit, depth + 1) for item in list(value)[:ITEMS_MAX]]
        if is_dataclass(value) and not isinstance(value, type):
            named = {field.name: getattr(value, field.name, None) for field in fields(value)}
            return self._mapping(named, limit, depth)
        return self.text(_repr(value), limit=limit)

    def _mapping(self, value: Mapping[Any, Any], limit: int, depth: int) -> dict[str, Any]:
        masked: dict[str, Any] = {}
        for key, item in list(value.items())[:ITEMS_MAX]:
            name = key if isinstance(key, str) else _repr(key)
            if is_secret_name(name[:128]) and not _is_harmless(name, item):
                masked[self.text(name, limit=128)] = MASK
            else:
                masked[self.text(name, limit=128)] = self._value(item, limit, depth + 1)
        return masked


@functools.lru_cache(maxsize=2048)
def is_secret_name(name: str) -> bool:
    """Say whether a field of this name holds a secret, in any spelling (api-key, apiKey, API_KEY)."""
    plain = "".join(character for character in name.lower() if character.isalnum())
    return plain.endswith(_NAMED_AT_END) or any(word in plain for word in _NAMED)


def clean(text: str) -> str:
    """Replace lone surrogates, which no encoder takes (one of them would cost a whole batch)."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return _SURROGATES.sub("\N{REPLACEMENT CHARACTER}", text)
    return text


def without_persons(text: str) -> str:
    """Mask Chinese identity and phone numbers and payment cards."""
    text = _CITIZEN.sub("[id number]", text)
    text = _PHONE.sub("[phone]", text)
    return _CARD.sub(lambda found: "[card]" if _is_card(found[0]) else found[0], text)


def _is_card(text: str) -> bool:
    total = 0
    for place, digit in enumerate(reversed([int(c) for c in text if c.isdigit()])):
        doubled = digit * 2 if place % 2 else digit
        total += doubled - 9 if doubled > 9 else doubled
    return total % 10 == 0


def _is_harmless(name: str, value: Any) -> bool:
    # prompt_tokens = 120 is a count; a PIN is a number too, but nobody names it *_tokens.
    counted = name.lower().endswith(("token", "tokens")) and isinstance(value, int | float)
    return counted or value is None or value == "" or isinstance(value, bool)


def _number(value: int) -> str:
    return f"int of {value.bit_length()} bits" if value.bit_length() > 4096 else str(value)


def _repr(value: Any) -> str:
    try:
        return clean(str(value) if isinstance(value, BaseException) else repr(value))
    except Exception as error:  # a foreign __repr__ may do anything
        return f"<{type(value).__name__}: repr raised {type(error).__name__}>"
