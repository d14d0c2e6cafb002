"""What keeps a model from calling a tool well, found by reading its description and schema."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from worker.core.wording import described, soft_word
from worker.registry import Registry, Tool, wire_names

DESCRIPTION_CHARS_MAX = 1024  # OpenAI refuses more
DESCRIPTION_CHARS_MIN = 8


@dataclass(frozen=True, slots=True)
class Lint:
    """One finding. `level` is warning (will work badly) or note (worth knowing)."""

    tool: str
    rule: str
    level: str
    message: str
    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.tool}: {self.message} [{self.rule}]"


def lint(tools: Registry | Iterable[Tool]) -> list[Lint]:
    """Read all tools; the findings come in the order of the tools."""
    all_tools = list(tools)
    wire = wire_names(each.name for each in all_tools)
    found: list[Lint] = []
    for each in all_tools:
        for rule, level, message in _findings(each, wire[each.name]):
            found.append(Lint(each.name, rule, level, message, each.source_file, each.source_line))
    return found


def _findings(each: Tool, wire_name: str) -> Iterator[tuple[str, str, str]]:
    yield from _about_description(each)
    yield from _about_parameters(each)
    if wire_name != each.name:
        yield (
            "wire-name",
            "note",
            f"the name is not legal on the wire; models see {wire_name!r}",
        )
    if each.effect == "write" and not each.effect_declared:
        yield "undeclared-effect", "warning", f"runs as a write; {_declaration()}"
    if each.effect == "write" and each.verify is None:
        yield (
            "no-verify",
            "note",
            "without verify, a write that is interrupted ends as unknown and needs a person",
        )
    if each.effect == "read" and each.dependency != each.name and each.stub is None:
        yield (
            "no-stub",
            "note",
            f"no stub for when {each.dependency!r} is down; the model is told it failed",
        )


def _declaration() -> str:
    return (
        'write @tool(effect="write"), or "read" if it changes nothing, or "idempotent" if '
        "repeating it with ctx.idempotency_key is safe"
    )


def _about_description(each: Tool) -> Iterator[tuple[str, str, str]]:
    text = each.description.strip()
    if not text:
        yield "no-description", "warning", "no description: a model cannot know when to call it"
        return
    if len(text) < DESCRIPTION_CHARS_MIN and text.isascii():
        yield "short-description", "warning", f"the description {text!r} says too little"
    if len(text) > DESCRIPTION_CHARS_MAX:
        yield (
            "long-description",
            "warning",
            f"the description has {len(text)} characters; some servers refuse more than "
            f"{DESCRIPTION_CHARS_MAX}",
        )
    soft = soft_word(text)
    if soft:
        yield (
            "soft-word",
            "warning",
            f"the description says {soft!r}; say plainly when to call it",
        )


def _about_parameters(each: Tool) -> Iterator[tuple[str, str, str]]:
    properties = each.parameters.get("properties", {})
    bare = [name for name, schema in properties.items() if not described(schema)]
    if bare:
        yield (
            "no-parameter-description",
            "warning",
            f"no description of {', '.join(bare)}; add an Args section or Field(description=…)",
        )
    for name, schema in properties.items():
        soft = soft_word(described(schema))
        if soft:
            yield (
                "soft-word",
                "warning",
                f"the description of {name} says {soft!r}; say what goes in",
            )
