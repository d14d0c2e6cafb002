"""The decorator of hand-off rules, and how the files that hold them are found."""

from __future__ import annotations

import functools

import pytest

from worker import handoff_rule
from worker.core.errors import ConfigError
from worker.discovery import bare_places, load_registry


def judge(rule, text="text", source="answer"):
    """What the rule says of a text."""
    return rule.judge(text, source)


def test_rule_is_its_function_with_a_name_and_a_reason():
    """The docstring is the reason, the function's name the rule's; calling it is as ever."""

    @handoff_rule
    def legal(text, source):
        """A lawyer has to look at it.

        More words.
        """
        return "lawyer" in text and source == "answer"

    assert (legal.name, legal.reason, legal.on) == ("legal", "A lawyer has to look at it.", "both")
    assert legal("ask a lawyer", "answer") is True
    assert judge(legal, "ask a lawyer") == "A lawyer has to look at it."
    assert judge(legal, "ask a lawyer", "tool:crm") is None
    assert str(legal).startswith("FunctionRule('legal', both, ")


@pytest.mark.parametrize(
    ("said", "reason"),
    [(True, "odd"), (False, None), (None, None), ("", None), (" risk 5 ", "risk 5")],
)
def test_function_says_yes_or_why(said, reason):
    """True gives the rule's own reason, a text gives this one, and nothing is nothing."""
    rule = handoff_rule(name="odd")(lambda text: said)

    assert judge(rule) == reason


@pytest.mark.parametrize("said", [0, 1, [], ["x"], object()])
def test_what_is_neither_is_a_mistake(said):
    """A number or a list is no word on the matter: the rule counts as broken."""
    with pytest.raises(TypeError, match="return True, a reason, or False"):
        judge(handoff_rule(name="odd")(lambda text: said))


def test_coroutine_is_closed_and_refused():
    """A plain function that gives a coroutine all the same leaves no warning behind."""

    async def slow():
        return True

    with pytest.raises(TypeError, match="coroutine"):
        judge(handoff_rule(name="odd")(lambda text: slow()))


async def later(text):
    """An async rule."""


def each(text):
    """A rule that yields."""
    yield True


def nothing():
    """A rule that takes nothing."""


def much(text, source, more):
    """A rule that takes too much."""


@pytest.mark.parametrize(
    ("function", "options", "said"),
    [
        (later, {}, "must be a plain function"),
        (functools.partial(later), {"name": "later"}, "must be a plain function"),
        (each, {}, "must be a plain function"),
        (nothing, {}, r"must take \(text, source\), or \(text\)"),
        (much, {}, r"must take \(text, source\), or \(text\)"),
        (lambda text: True, {}, "name=… must be letters"),
        (nothing, {"name": "no spaces"}, "name=… must be letters"),
        (nothing, {"on": "always"}, "on must be one of both, answer, results"),
        (nothing, {"tools": "crm"}, "tools must be a list of names"),
        (nothing, {"tool": "crm"}, "unknown option 'tool'; known: name, on, tools"),
        (5, {}, "needs a function, got 5"),
    ],
)
def test_rule_that_cannot_work_is_refused_where_it_is_written(function, options, said):
    """The line names the file, the line and the rule, and what is wanted."""
    with pytest.raises(ConfigError, match=said) as caught:
        handoff_rule(**options)(function) if options else handoff_rule(function)
    if callable(function):
        assert "test_handoff_rule.py:" in str(caught.value)


RULES = '''
from worker import handoff_rule, tool

@handoff_rule(on="results", tools=["look"])
def risk(text: str, source: str) -> bool:
    """Risk level 5."""
    return "level 5" in text
'''


def test_rules_are_found_beside_tools(tmp_path):
    """A file of rules needs no tool; two rules of one name name both places."""
    file, other = tmp_path / "rules.py", tmp_path / "more.py"
    file.write_text(RULES)
    registry = load_registry(str(file), entry_points=False)

    assert [rule.name for rule in registry.rules] == ["risk"]
    assert (len(registry), bare_places(str(file))) == (0, [])
    other.write_text(RULES)
    with pytest.raises(ConfigError, match=r"two rules are called 'risk': .*rules.py:4 and .*more"):
        load_registry(f"{file},{other}", entry_points=False)
