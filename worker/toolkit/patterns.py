"""Regular expressions of other people, in time that grows with the text and never faster."""

from __future__ import annotations

from collections.abc import Callable

import jsonschema_rs

from worker.core.errors import ConfigError

COMPILED_BYTES_MAX = 1024 * 1024


def compile_pattern(pattern: str, *, where: str) -> Callable[[str], bool]:
    """Compile a pattern in the syntax of JSON schema; the function says whether a text holds it.

    The engine has neither look-around nor back-references, and so nothing that could run away:
    such a pattern, one that is none and one that grows too large are a ConfigError that begins
    with `where`.
    """
    limits = jsonschema_rs.RegexOptions(
        size_limit=COMPILED_BYTES_MAX, dfa_size_limit=COMPILED_BYTES_MAX
    )
    schema = {"type": "string", "pattern": pattern}
    try:
        validator = jsonschema_rs.validator_for(schema, pattern_options=limits, offline=True)
    except (ValueError, jsonschema_rs.ReferencingError):
        raise ConfigError(
            f"{where}: {pattern[:80]!r} is no regular expression that is taken here: the syntax of"
            " JSON schema, without look-around, back-references and huge repetitions"
        ) from None
    is_valid = validator.is_valid

    def holds(text: str) -> bool:
        try:
            return bool(is_valid(text))
        except (ValueError, TypeError):  # half a surrogate pair
            return bool(is_valid(text.encode("utf-8", "replace").decode()))

    return holds
