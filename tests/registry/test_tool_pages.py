"""An HTML page never poses as data, whatever status or clothes it comes in."""

from __future__ import annotations

import json
import time
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.core.errors import AttemptFailed
from worker.toolresult import normalise_result
from worker.webpage import HTML_CHARS_MAX, is_page, page_of

TOLD = "[The text of a web page, not data.]"
PAGE = """<!DOCTYPE html>
<html><head><title> Prices
 today </title><style>p {color: red}</style></head>
<body><nav>Menu</nav><script>var a = "<p>no</p>";</script>
<h1>Prices</h1><p>ACME is <b>12</b>.50 &amp; rising</p>
<table><tr><th>Name</th><th>Price</th></tr><tr><td>A</td><td>1</td></tr></table>
<ul><li>one<li>two</ul><pre>x = 1
y = 2</pre><nav hidden><nav hidden aria-hidden=true>secret</nav></nav></body></html>"""
READ = [
    *("Prices today", "", "Prices", "ACME is 12.50 & rising", "Name | Price", "A | 1"),
    *("one", "two", "x = 1", "y = 2"),
]


def content(value: Any, *, pages: bool = False) -> str:
    """Return the text of a value."""
    return normalise_result(value, max_chars=10_000, pages=pages).content


def reply(body: str | bytes, kind: str = "text/html", status: int = 200) -> httpx.Response:
    """Return a response."""
    return httpx.Response(status, content=body, headers={"content-type": kind})


def test_page_is_reduced_to_what_a_reader_sees():
    """Title and text, a line for each block; no markup, script, style, menu or hidden part."""
    assert content(PAGE, pages=True).splitlines() == READ


def test_page_of_a_tool_that_returns_data_is_told_from_data():
    """The first line says what it is, in the language of the question."""
    assert content(PAGE).splitlines() == [TOLD, *READ]
    told = normalise_result(PAGE, max_chars=999, language="zh").content
    assert told.startswith("[以下是一个网页的文字,不是数据。]\n")


@pytest.mark.parametrize(
    "before",
    [
        *(
            "",
            "\ufeff",
            " \n",
            "<!-- a\nb -->",
            "<!-- a > b -->",
            "<?xml version='1.0'?>\n<!--x--><!--y-->\n",
        ),
    ],
    ids=ascii,
)
@pytest.mark.parametrize(
    "page",
    [
        "<!doctype HTML><p>hi",
        "<HTML\n lang=zh>hi",
        "<head><body>hi",
        "<body class=x>hi",
        "<title></title>hi",
    ],
)
def test_page_is_known_by_its_beginning(before: str, page: str):
    """Case, byte order mark, XML declaration and comments of several lines hide nothing."""
    assert is_page(before + page)
    assert content(before + page) == f"{TOLD}\nhi"


@pytest.mark.parametrize(
    "text",
    [
        *("<b>3</b> of 4", "a <html> tag", "<svg><p/></svg>", "1 < 2", "<htmlish>", "<!-- html"),
        *("<?xml version='1.0'?><rss><title>x</title></rss>", "<header>x</header>", "<", "<?"),
        '{"html": "use <body> and </body>"}',
    ],
)
def test_text_that_is_no_page_stays(text: str):
    """Only a page is a page: code, fragments, feeds and comparisons are left alone."""
    assert content(text) == text


@pytest.mark.parametrize("body", ["<b>Prices</b> at noon", b"<p>Prices at noon"])
def test_content_type_says_it_too(body: str | bytes):
    """A fragment that the server calls HTML is no data either; JSON by that name is JSON."""
    assert content(reply(body)) == f"{TOLD}\nPrices at noon"
    assert content(reply('{"price": 1}')) == '{"price": 1}'


ERRORS = [
    ("<html><head><title>502 Bad Gateway</title></head><body><hr>nginx</body></html>", 502),
    ("<html><body><h1>503 Service Unavailable</h1>\nNo server is available.</body></html>", 503),
    ("<!DOCTYPE html><title>504 Gateway Time-out</title><h1>504</h1>", 504),
    ("<!DOCTYPE html><html lang=en><title>Error 404 (Not Found)!!1</title><p>404", 404),
    ("<HTML><HEAD>\n<TITLE>Access Denied</TITLE>\n</HEAD><BODY>Reference #18", 403),
    ("<html><head><title>Just a moment...</title></head><body>Checking</body></html>", 403),
    ("<html><title>429 Too Many Requests</title>", 429),
    ("<html><title>500 Internal Server Error</title>", 500),
    ("<html><title>系统维护中</title><body>请稍后再试", 503),
    ("<html><title>页面不存在</title>", 404),
    ("<html><body><form>Name <input name=u><input type=PassWord></form>", 401),
    ("<html><title>Sign in</title><body><input type='password'>Sign in to go on", 401),
]


@pytest.mark.parametrize(("page", "status"), ERRORS)
@pytest.mark.parametrize("wrap", [str, str.encode, reply], ids=["text", "bytes", "response"])
def test_page_of_an_error_or_a_login_is_an_error(page: str, status: int, wrap: Any):
    """With status 200 too: breaker, retry and fallback see what a person would see."""
    with pytest.raises(AttemptFailed, match="an HTML page came instead of data") as caught:
        normalise_result(wrap(page), max_chars=10_000)

    kind = "rate_limited" if status == 429 else "http_5xx" if status >= 500 else "http_4xx"
    assert (caught.value.status_code, caught.value.kind) == (status, kind)
    assert content(wrap(page), pages=True)


@pytest.mark.parametrize(
    "page",
    [
        "<html><title>500 Startups</title><body>A fund",
        "<html><title>Not found: a film</title><body>" + "<p>A long review of it. " * 200,
        "<html><title>Forum</title><body><input type=password>" + "<p>A long thread. " * 200,
    ],
)
def test_page_that_only_resembles_an_error_is_read(page: str):
    """A number in a title, and an article with much to say, are no errors."""
    assert content(page).startswith(TOLD)


def test_json_in_a_page_is_json():
    """What a browser view or a proxy has wrapped comes out as it went in."""
    data = {"price": 12.5, "note": "a  b", "at": [1, 2]}
    plain = json.dumps(data, indent=1)

    assert json.loads(content(f"<html><body><pre>{plain}</pre></body></html>")) == data
    assert content("<html><body>{not json}</body></html>") == f"{TOLD}\n{{not json}}"


def test_page_within_data_is_told_from_it():
    """The value of a field may be a page; the data around it stay as they are."""
    value = {"status": "ok", "pages": [PAGE], "code": "<b>x</b>"}
    told = json.loads(content(value))

    assert (told["status"], told["code"]) == ("ok", "<b>x</b>")
    assert told["pages"][0].splitlines() == [TOLD, *READ]
    assert json.loads(content(json.dumps(value))) == told


def test_many_pages_within_data_are_not_all_read():
    """Beyond twenty it is only said that there was one."""
    told = json.loads(content(["<html>text" for _ in range(50)]))

    assert told == [f"{TOLD}\ntext"] * 20 + [f"{TOLD}\n…"] * 30


def test_long_pages_within_data_are_not_all_read():
    """As many characters are read as of one page; data nested too deep are left as they are."""
    long = "<html>" + "x" * (HTML_CHARS_MAX // 2)
    told = json.loads(normalise_result([long] * 3, max_chars=10 * HTML_CHARS_MAX).content)
    deep, deeper = ("[" * depth + '"<body>x"' + "]" * depth for depth in (300, 900))

    assert [len(text) > 1000 for text in told] == [True, False, False]
    assert content(deep) == deep
    assert content(deeper) == deeper


def test_end_of_a_page_that_is_too_long_is_not_read():
    """What would be cut anyway costs nothing; letters that grow in lower case move no line."""
    assert not page_of("<html>" + "x" * HTML_CHARS_MAX + "end").body.endswith("end")
    assert page_of("İ" * 20 + "<pre>ab</pre>12345678\n9").body.endswith("12345678 9")


def test_page_with_nothing_on_it_is_empty():
    """A page of scripts only is no information, and nothing is told about it."""
    result = normalise_result("<html><script>go()</script></html>", max_chars=99)

    assert (result.content, result.empty) == ("(no output)", True)


def test_encoding_is_found_where_pages_declare_it():
    """Neither bytes nor a response whose header names no charset are guessed at."""
    page = "<html><meta charset=gbk><body>价格</body></html>".encode("gbk")

    assert content(page) == f"{TOLD}\n价格"
    assert content(reply(page)) == f"{TOLD}\n价格"
    assert content(b"<html>\xb0\xa1") == "(binary result, 8 bytes, not shown)"
    assert content(page.replace(b"gbk", b"no-such")).startswith("(binary result")


HOSTILE = {
    "comments": "<!---->" * 100_000 + "x",
    "preformatted": "<html>" + "<pre" * 250_000,
    "divisions": "<html>" + "<div>" * 200_000,
    "definitions": "<html>" + "<dd><li>" * 120_000,
    "unknown": "<html>" + "<x></y>" * 140_000,
    "hidden": "<html>" + "<nav hidden>" * 80_000,
    "cells": "<html>" + ("</td" + " " * 1000) * 900,
    "brackets": "<html>" + "<" * 900_000,
    "attributes": "<html><body " + "a=1 " * 250_000 + ">",
    "title": "<html><title>" + "找不到" * 300_000,
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_page_made_to_hurt_costs_little(kind: str):
    """A megabyte of the worst takes a fraction of a second of CPU; it took minutes, or for ever."""
    began = time.process_time()
    normalise_result(HOSTILE[kind], max_chars=10_000)

    assert time.process_time() - began < 3.0


ODD_TEXT = st.text(alphabet=st.characters(exclude_categories=[]), max_size=60)
TAGS = st.sampled_from(["<html>", "<!DOCTYPE html><body>", "<head>", "<html "])


@given(html=ODD_TEXT, tag=TAGS)
def test_any_page_can_be_read(html: str, tag: str):
    """Broken markup never raises, and there is always something to read."""
    assert isinstance(page_of("x" + html).text, str)
    assert normalise_result(tag + html, max_chars=1000, pages=True).content
