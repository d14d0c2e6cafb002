"""What a server answers becomes text or JSON for the model; what cannot be shown is named."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from worker.core.errors import ToolError
from worker.mcp.results import value_of
from worker.toolresult import normalise_result


def result(*content: Any, structured: Any = None, is_error: bool = False) -> Any:
    """A result as the SDK reads it."""
    return SimpleNamespace(content=list(content), structured_content=structured, is_error=is_error)


def text(words: str) -> Any:
    """A block of text."""
    return SimpleNamespace(type="text", text=words)


def test_texts_are_joined():
    """Several blocks are one text."""
    assert value_of(result(text("one"), text("two"))) == "one\n\ntwo"


def test_structured_content_that_is_said_in_text_as_well_is_told_once():
    """Servers repeat it for old clients, in one of several forms."""
    assert value_of(result(text('{"a": 1}'), structured={"a": 1})) == '{"a": 1}'
    assert value_of(result(text("7"), structured={"result": 7})) == "7"
    assert value_of(result(text("seven"), structured={"result": "seven"})) == "seven"
    two = result(text("a"), text('{"b": 2}'), structured={"result": ["a", {"b": 2}]})
    assert value_of(two) == 'a\n\n{"b": 2}'


def test_structured_content_alone_is_json_and_beside_other_text_is_added():
    """Nothing of it is lost."""
    assert value_of(result(structured={"a": [1]})) == {"a": [1]}
    assert value_of(result(text("see below"), structured={"a": 1})) == 'see below\n\n{"a": 1}'


def test_what_is_no_text_is_named_with_its_size():
    """A model that is told of a picture does not invent one."""
    image = SimpleNamespace(type="image", data="A" * 400, mime_type="image/png")
    blob = SimpleNamespace(uri="file:///x", mime_type=None, blob="AAAA")
    note = SimpleNamespace(uri="file:///n.txt", mime_type="text/plain", text="hello")
    link = SimpleNamespace(type="resource_link", name="log", uri="file:///l", description=None)
    blocks = [
        image,
        SimpleNamespace(type="resource", resource=blob),
        SimpleNamespace(type="resource", resource=note),
        link,
        SimpleNamespace(type="hologram"),
    ]
    assert value_of(result(*blocks)).split("\n\n") == [
        "[image image/png, 300 bytes: not shown]",
        "[file:///x data, 3 bytes: not shown]",
        "[file:///n.txt]\nhello",
        "[link log file:///l]",
        "[hologram: not shown]",
    ]


def test_an_error_of_the_tool_is_for_the_model_to_read():
    """It says nothing about the health of the server."""
    with pytest.raises(ToolError, match="no such order"):
        value_of(result(text("no such order"), is_error=True))
    with pytest.raises(ToolError, match="without a word"):
        value_of(result(is_error=True))


def test_a_question_in_place_of_a_result_is_an_error():
    """Nobody is there who could answer it."""
    with pytest.raises(ToolError, match="ask somebody"):
        value_of(SimpleNamespace(input_requests={}))


def test_very_many_blocks_are_bounded():
    """The rest is counted."""
    assert value_of(result(*[text("x")] * 600)).endswith("[100 more parts, left out]")


def test_an_empty_result_is_one_without_information():
    """So that two of them in a row end a run as they do for any tool."""
    assert normalise_result(value_of(result()), max_chars=100).empty
