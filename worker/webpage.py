"""HTML documents among tool results: known as such, reduced to what a reader would see, judged.

A page may be a mile deep or made to hurt, so what is looked at is bounded, and no pattern tries
again from every place.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from selectolax.lexbor import LexborHTMLParser

HTML_CHARS_MAX = 1_000_000  # at worst some 100 ms; what follows would be cut anyway
# Each block looks through all that are open, so a page of nothing but openings costs the square of
# their number: a third of a second for these. They are some 60,000 characters of text.
TAGS_MAX = 12_000
NOTICE_CHARS_MAX = 2_000  # an error or a login says little; what says more is something else

_SPACE = re.compile(r"[\s\ufeff]*")
_OPENINGS = ("!doctype html", "html", "head", "body", "title")
_HIDDEN = "script, style, noscript, template, svg, iframe, head, nav, [hidden], [aria-hidden=true]"
_BREAK = "\x1e"  # a control character, so it is in no cleaned text
_BLOCK_TAG = re.compile(
    r"(?=</?(?:p|div|section|article|header|footer|main|h[1-6]|li|pre|blockquote|dt|dd|"
    r"figcaption|ul|ol|br|hr|form|option)\b|<table\b)|(?<=</table>)",
    re.I,
)
# Text between cells would be moved out of the table, so the marks of a row go into its cells.
_ROW_END = re.compile(r"(?=</t[dh]\s*>\s*</tr\b)", re.I)
_CELL_END = re.compile(r"(?=</t[dh]\b)", re.I)

# What error pages say in their title or first line, and the status that they stand for.
_NOTICES = (
    (502, r"bad gateway|网关错误"),
    (504, r"gateway time-?\s?out|网关超时"),
    (
        503,
        r"(?:service|server|site|website)(?: is)?(?: temporarily)? unavailable|under maintenance",
    ),
    (503, r"服务(?:暂时)?不可用|系统维护|正在维护|维护中"),
    (500, r"internal server error|application error|server error|服务器(?:内部)?错误|系统错误"),
    (429, r"too many requests|请求过于频繁|访问过于频繁"),
    (403, r"forbidden|access denied|request (?:rejected|blocked)|just a moment\.\.\."),
    (403, r"attention required!|拒绝访问|访问被拒绝|禁止访问"),
    (401, r"unauthori[sz]ed|authentication required|未授权"),
    (404, r"(?:page |file )?not found|页面不存在|找不到(?:该|此|您)?.{0,8}(?:网页|页面)"),
    (400, r"bad request"),
)
_NOTICE = re.compile(
    "|".join(f"(?P<s{number}_{status}>{words})" for number, (status, words) in enumerate(_NOTICES)),
    re.I,
)


@dataclass(frozen=True, slots=True)
class Page:
    """What a reader would see. `asks_for_password` tells that it holds such a field."""

    title: str
    body: str
    raw: str  # the text of the body as it was written, without tags
    asks_for_password: bool

    @property
    def text(self) -> str:
        """Title and text."""
        return "\n\n".join(filter(None, (self.title, self.body)))

    @property
    def status(self) -> int | None:
        """The HTTP status that the page stands for though it came with another: 401 for a login.

        None for a page that is neither an error nor a login.
        """
        if len(self.body) > NOTICE_CHARS_MAX:
            return None
        if self.asks_for_password:
            return 401
        said = _NOTICE.search(self.title or self.body.partition("\n")[0][:200])
        return int(str(said.lastgroup).rpartition("_")[2]) if said else None


def is_page(text: str) -> bool:
    """Say whether a text is an HTML document.

    One begins with a doctype, `<html>`, `<head>`, `<body>` or `<title>`; white space, an XML
    declaration and comments may come before it.
    """
    at = _first(text, 0)
    while text.startswith(("<?", "<!--"), at):
        end = "-->" if text[at + 1] == "!" else ">"
        at = text.find(end, at)
        if at < 0:
            return False
        at = _first(text, at + len(end))
    if not text.startswith("<", at):
        return False
    head = text[at + 1 : at + 20].lower()
    return any(head.startswith(each) and not head[len(each) :][:1].isalnum() for each in _OPENINGS)


def page_of(html: str) -> Page:
    """Reduce an HTML page to its title and what a reader would see, a line for each block."""
    html = _beginning(html)
    # Marked in the source and not in the tree: on a page of 2 MB that is ten times as fast.
    html = _marked_lines(html)
    html = _CELL_END.sub(" | ", _ROW_END.sub(_BREAK, _BLOCK_TAG.sub(_BREAK, html)))
    tree = LexborHTMLParser(html)
    found = tree.css_first("title")
    title = _one_line(found.text()) if found else ""
    asks = tree.css_first('input[type="password" i]') is not None
    # Each once and the innermost first: what is freed twice may be given out twice.
    hidden = {node.mem_id: node for node in tree.css(_HIDDEN)}
    for node in reversed(hidden.values()):
        node.decompose()
    root = tree.body or tree.root
    text = root.text() if root is not None else ""
    return Page(title, _lines(text), text.replace(_BREAK, "\n").strip(), asks)


def _first(text: str, at: int) -> int:
    """Find the first character that is no space."""
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _marked_lines(html: str) -> str:
    """Mark the line ends within `<pre>`, where they are to be seen."""
    lower = html.lower()
    if len(lower) != len(html):  # a few letters are longer in lower case
        return html
    parts, at = [], 0
    while (begin := lower.find("<pre", at)) >= 0 and (end := lower.find("</pre>", begin)) >= 0:
        parts += [html[at:begin], html[begin:end].replace("\n", _BREAK)]
        at = end
    return "".join([*parts, html[at:]])


def _beginning(html: str) -> str:
    """Leave out what would be cut anyway."""
    html = html[:HTML_CHARS_MAX]
    if html.count("<") <= TAGS_MAX:
        return html
    return "<".join(html.split("<", TAGS_MAX)[:TAGS_MAX])


def _lines(text: str) -> str:
    lines = (_one_line(line).strip("| ") for line in text.split(_BREAK))
    return "\n".join(filter(None, lines))


def _one_line(text: str) -> str:
    return " ".join(text.replace(_BREAK, " ").split())
