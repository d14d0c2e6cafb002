"""A group of settings: refuses unknown names, never changes, reads times and lists."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationInfo,
    field_validator,
)

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def _seconds(value: Any) -> Any:
    """Accept 90, "90", "90s", "1.5m", "7d"."""
    if isinstance(value, str):
        text = value.strip().lower()
        for unit in sorted(_UNITS, key=len, reverse=True):
            if text.endswith(unit):
                return float(text[: -len(unit)]) * _UNITS[unit]
    return value


def listed(value: Any) -> Any:
    """Accept one text with commas as well as a list: a variable has no lists."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return value


def _line(value: Any) -> Any:
    """Take off what a file or a copy left at the ends; refuse what would hide within."""
    if not isinstance(value, str) or value == "":
        return value
    text = value.strip()
    if not text or not text.isprintable():
        raise ValueError("must be one line of visible characters")
    return text


def _key(secret: SecretStr) -> SecretStr:
    """A key goes into a header, where a line break, or a letter beyond ASCII, cannot go."""
    text = secret.get_secret_value().strip()
    if text != "" and not all("!" <= char <= "~" for char in text):
        raise ValueError("must be printable ASCII characters without spaces or line breaks")
    return SecretStr(text)


Key = Annotated[SecretStr, AfterValidator(_key)]
Line = Annotated[str, BeforeValidator(_line)]
Names = Annotated[tuple[str, ...], BeforeValidator(listed)]
Seconds = Annotated[float, BeforeValidator(_seconds), Field(allow_inf_nan=False)]


class Section(BaseModel):
    """A group of settings. Unknown names are refused, values never change after the start."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)

    @field_validator("*", mode="before")
    @classmethod
    def _no_switch_is_a_number(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse `limit = true`, which Python would take for a limit of 1."""
        if isinstance(value, bool) and info.field_name is not None:
            kind = str(cls.model_fields[info.field_name].annotation)
            if "bool" not in kind:
                raise ValueError("must not be true or false")
        return value
