"""Whatever a tool returns, the model reads non-empty, bounded, honest text."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import json
from typing import Any

import httpx
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.core.errors import AttemptFailed
from worker.core.texts import shortened
from worker.rendering import ITEMS_MAX, rendered
from worker.toolresult import normalise_result


class Colour(enum.Enum):
    """A choice."""

    RED = "red"


@dataclasses.dataclass
class Point:
    """A place."""

    x: int
    y: Any


class Model(pydantic.BaseModel):
    """A model."""

    name: str
    tags: list[str] = []


class Rude:
    """An object whose repr raises."""

    def __repr__(self) -> str:
        raise RuntimeError("no")


class Silent:
    """An object that says nothing about itself."""


def content(value: Any, *, max_chars: int = 10_000) -> str:
    """Return the text of a value."""
    return normalise_result(value, max_chars=max_chars).content


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("12.50", "12.50"),
        (12.5, "12.5"),
        (0, "0"),
        (False, "false"),
        (True, "true"),
        (float("nan"), "NaN"),
        ({"price": 12.5, "名称": "苹果"}, '{"price":12.5,"名称":"苹果"}'),
        ([1, None], "[1,null]"),
        ((1, 2), "[1,2]"),
        ({3}, "[3]"),
        ({1: "a"}, '{"1":"a"}'),
        ({"a": float("inf"), "b": None}, '{"a":"inf","b":null}'),
        (Point(1, [Colour.RED]), '{"x":1,"y":["red"]}'),
        (Model(name="m"), '{"name":"m","tags":[]}'),
        (Colour.RED, "red"),
        (datetime.date(2026, 12, 2), "2026-12-02"),
        ({"at": datetime.date(2026, 12, 2), "n": None}, '{"at":"2026-12-02","n":null}'),
        ({"cost": decimal.Decimal("1.50")}, '{"cost":"1.50"}'),
        (b"text \xe4\xbb\xb7", "text 价"),
        (b"\x89PNG\r\n\x00\x01", "(binary result, 8 bytes, not shown)"),
        ({"a": b"\xff"}, '{"a":"(binary result, 1 bytes, not shown)"}'),
        (Rude(), "(a value of type Rude that cannot be shown)"),
        ({"a": Rude()}, '{"a":"(a value of type Rude that cannot be shown)"}'),
        (Silent(), "(a value of type Silent that cannot be shown)"),
        (9007199254740993, "9007199254740993"),
        (2**70, str(2**70)),
        ("a\ud83d\ude00b\ud83dc", "a😀b\ufffdc"),
        ("\ufeff12.50", "12.50"),
        (b"\xef\xbb\xbf12.50", "12.50"),
        ("价 12.50".encode("utf-16"), "价 12.50"),
        ("<?xml version='1.0'?><price>12</price>", "<?xml version='1.0'?><price>12</price>"),
        ("a\x00b\x1b[31mc\td\r\ne", "ab[31mc\td\ne"),
    ],
    ids=lambda value: ascii(value)[:30] if not isinstance(value, (dict, Rude)) else "odd",
)
def test_value_becomes_text(value: Any, expected: str):
    """Text as it is, everything else as JSON, and what has no text says so."""
    assert content(value) == expected


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((nothing, "(no output)") for nothing in (None, "", " \n", b"")),
        ([], "[]"),
        ({}, "{}"),
        ({"results": []}, '{"results":[]}'),
        ({"items": [], "total": 0, "page": 1}, '{"items":[],"total":0,"page":1}'),
        ({"code": 0, "msg": "success", "data": None}, '{"code":0,"msg":"success","data":null}'),
        ('{"结果": [], "总数": 0}', '{"结果": [], "总数": 0}'),
    ],
)
def test_result_without_information_is_marked_empty(value: Any, text: str):
    """The model gets a text all the same; two of these in a row end a run."""
    result = normalise_result(value, max_chars=100)

    assert (result.content, result.empty) == (text, True)


@pytest.mark.parametrize(
    "value",
    [
        *(0, False, "0", [0], [None], {"a": None}, {"result": 0}, {"results": [], "total": 57}),
        {"data": None, "success": False},
        {"data": None, "code": 500, "message": "database down"},
        {"results": [], "message": "try the archive"},
        {"errors": []},
        {"items": [], "balance": 0},
    ],
)
def test_result_with_little_information_is_not_empty(value: Any):
    """Zero, false and a list of nothing are answers."""
    assert not normalise_result(value, max_chars=100).empty


def test_number_that_python_refuses_to_print_tells_its_size():
    """A million digits are no answer, and no crash."""
    assert content(10**5000) == "(a number of about 5001 digits)"


def test_long_text_keeps_head_and_tail_and_says_what_is_missing():
    """Three quarters of the room go to the head, one to the tail."""
    text = "".join(f"{number:06d}" for number in range(1000))
    result = normalise_result(text, max_chars=1000)
    head, marker, tail = result.content.split("\n")

    assert result.truncated
    assert result.result_bytes == 6000
    assert len(result.content) <= 1000
    assert text.startswith(head)
    assert text.endswith(tail)
    assert 2.8 < len(head) / len(tail) < 3.2
    assert marker == f"[… truncated: {6000 - len(head) - len(tail)} characters omitted …]"


def test_marker_speaks_the_language_of_the_question():
    """A Chinese run gets a Chinese marker, with the word that other readers look for."""
    text = normalise_result("价" * 500, max_chars=200, language="zh").content

    assert "已截断 truncated" in text
    assert len(text) <= 200


def test_self_containing_and_endless_structures_end():
    """A cycle and a nesting of 100,000 levels are cut, not followed."""
    ring: list[Any] = [1]
    ring.append(ring)
    deep: Any = {}
    for _ in range(100_000):
        deep = {"n": deep}

    assert content(ring) == '[1,"(contains itself)"]'
    assert "(nested too deep)" in content(deep)


def test_items_beyond_the_bound_are_not_written():
    """Nobody reads the end of a list like that; it costs neither time nor memory."""
    many = range(ITEMS_MAX + 7)
    listed = json.loads(rendered([{0}, *("x" for _ in many)]))
    nested = json.loads(rendered([[{0} for _ in range(200)] for _ in range(ITEMS_MAX // 100)]))

    assert len(listed) == ITEMS_MAX
    assert len(json.loads(rendered({"odd": {0}} | {str(n): n for n in many}))) == ITEMS_MAX
    assert nested[0] == [[0]] * 200
    assert nested[-1] == "…"


def test_response_with_a_body_is_its_body():
    """Text by its own encoding, JSON as it came, pictures never raw."""
    gbk = httpx.Response(
        200, content="价格".encode("gbk"), headers={"content-type": "text/plain; charset=gbk"}
    )
    picture = httpx.Response(200, content=b"\x89P\x00", headers={"content-type": "image/png"})

    assert content(gbk) == "价格"
    assert content(httpx.Response(200, json={"a": 1})) == '{"a":1}'
    assert content(picture) == "(binary result, 3 bytes, not shown)"


@pytest.mark.parametrize(
    ("status", "kind"),
    [(302, "http_4xx"), (404, "http_4xx"), (429, "rate_limited"), (503, "http_5xx")],
)
def test_response_that_reports_an_error_is_an_error(status: int, kind: str):
    """Breaker and retry must see it; neither a redirect nor the text of an error poses as data."""
    response = httpx.Response(status, text="busy" * 500, headers={"retry-after": "7"})

    with pytest.raises(AttemptFailed) as caught:
        normalise_result(response, max_chars=10_000)

    assert (caught.value.kind, caught.value.status_code) == (kind, status)
    assert caught.value.retry_after_seconds == 7
    assert len(str(caught.value)) < 600


def test_response_that_nobody_read_is_an_error():
    """A streamed response has no body to show."""
    response = httpx.Response(200, stream=httpx.ByteStream(b"late"))

    with pytest.raises(AttemptFailed, match="was not read"):
        normalise_result(response, max_chars=100)


def test_cut_leaves_short_text_alone():
    """Nothing is marked that is not cut."""
    assert shortened("abc", max_chars=3) == "abc"


ODD_TEXT = st.text(alphabet=st.characters(exclude_categories=[]), max_size=60)
ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | ODD_TEXT
    | st.binary(max_size=40)
    | st.datetimes()
    | st.decimals()
    | st.builds(Rude)
    | st.sampled_from(Colour),
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(ODD_TEXT | st.integers() | st.none(), inner, max_size=5)
        | st.tuples(inner, inner)
        | st.builds(Point, st.integers(), inner)
    ),
    max_leaves=20,
)


@given(value=ANYTHING, max_chars=st.integers(80, 400), language=st.sampled_from(["zh", "en", "fr"]))
def test_anything_becomes_non_empty_bounded_text(value: Any, max_chars: int, language: str):
    """No value raises; the text has content, keeps the limit, and can go into a request."""
    result = normalise_result(value, max_chars=max_chars, language=language)

    assert result.content.strip()
    assert len(result.content) <= max_chars
    json.dumps(result.content, ensure_ascii=False).encode("utf-8")
    assert "\x00" not in result.content
