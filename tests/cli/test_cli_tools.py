"""The tools command: list, show, lint and one call by hand."""

from __future__ import annotations

import json

import pytest

GOOD = '''
"""A tool."""
from worker import tool

@tool(effect="read", stub="stubbed", attempts=1)
def double(number: int, note: str = "") -> str:
    """Double a whole number for the test.

    Args:
        number: The number.
        note: Text to put behind it.
    """
    if number < 0:
        raise RuntimeError("down")
    return f"{number * 2}{note}"
'''


@pytest.fixture
def tool_file(tmp_path, monkeypatch):
    """A file with one tool, named in LOOPWORKER_TOOLS."""
    file = tmp_path / "my_tools.py"
    file.write_text(GOOD)
    monkeypatch.setenv("LOOPWORKER_TOOLS", str(file))
    return file


def test_tools_are_listed(cli, tool_file):
    """Each tool is listed with effect, guard and stub; as JSON with its schema."""
    plain, ran = cli("tools"), cli("tools", "list", "--json")
    (tool,) = json.loads(ran.out)

    assert plain.code == 0
    assert plain.out.splitlines()[1].split()[:4] == ["double", "read", "double", "stubbed"]
    assert tool["parameters"]["properties"]["number"]["type"] == "integer"


def test_list_says_how_tools_are_called(cli, tool_file, monkeypatch):
    """Pollers (the settings win over the decorator) and sequential groups stand beside the effect."""
    declared = GOOD.replace("attempts=1", 'attempts=1, poller=True, sequential="s"')
    tool_file.write_text(declared)
    by_author = cli("tools")
    (known,) = json.loads(cli("tools", "--json").out)
    monkeypatch.setenv("LOOPWORKER_LOOP__POLLERS", "-double")
    by_operations = cli("tools")
    monkeypatch.setenv("LOOPWORKER_LOOP__POLLERS", "duoble")
    wrong = cli("tools")

    assert "read, poller, one by one: s" in by_author.out
    assert (known["poller"], known["sequential"]) == (True, "s")
    assert "read, one by one: s" in by_operations.out
    assert wrong.code == 2
    assert "LOOPWORKER_LOOP__POLLERS: there is no tool 'duoble'; there are: double" in wrong.err


def test_what_keeps_tools_away_is_told(cli, tool_file, monkeypatch):
    """A place without a tool, and a variable that a tool needs, are named beside the list."""
    empty = tool_file.with_name("forgotten.py")
    empty.write_text("def forgotten(): ...\n")
    tool_file.write_text(GOOD + '\nNEEDS = ("MY_URL",)\n')
    monkeypatch.setenv("LOOPWORKER_TOOLS", f"{tool_file},{empty}")
    without = cli("tools")
    monkeypatch.setenv("MY_URL", "http://x")
    with_it = cli("tools")

    assert f"{empty} in LOOPWORKER_TOOLS holds no tool; is an @tool missing?" in without.err
    assert "double needs MY_URL, which is not set" in without.err
    assert "needs" not in with_it.err


def test_call_is_quiet_beside_its_output(cli, tool_file, monkeypatch):
    """Only warnings are logged beside a call, unless a level is asked for."""
    quiet = cli("tools", "call", "double", "number=2")
    monkeypatch.setenv("LOOPWORKER_LOG_LEVEL", "debug")
    asked_for = cli("tools", "call", "double", "number=2")

    assert quiet.err == ""
    assert asked_for.err != ""


def test_tool_is_called_through_its_guard(cli, tool_file):
    """k=v words are read by the schema: numbers as numbers, text as text."""
    words = cli("tools", "call", "double", "number=21", "note=7")
    as_json = cli("tools", "call", "double", '{"number": 4}', "--json")

    assert (words.code, words.out) == (0, "427\n")
    assert json.loads(as_json.out)["content"] == "8"
    assert json.loads(as_json.out)["source"] == "live"


def test_failed_call_shows_the_stand_in(cli, tool_file):
    """When the tool fails, the stub goes to stdout, the cause to stderr, and the exit is 3."""
    ran = cli("tools", "call", "double", "number=-1")

    assert (ran.code, ran.out) == (3, "stubbed\n")
    assert "loopworker: double: stub after 1 attempt:" in ran.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("call", "double"), "number"),
        (("call", "double", "number=x"), "number"),
        (("call", "double", "number"), "'number' is not name=value"),
        (("call", "double", "{nope"), "not JSON"),
        (("call", "other"), "there are: double"),
        (("call",), "which one"),
        (("show", "other"), "there are: double"),
    ],
)
def test_wrong_call_is_usage(cli, tool_file, words, said):
    """A wrong name or argument is one line on stderr and exit 2."""
    ran = cli("tools", *words)

    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err


def test_lint_passes_a_good_tool(cli, tool_file):
    """A well described tool has no warnings, and the exit is 0."""
    ran = cli("tools", "lint")

    assert (ran.code, "1 tool, 0 warnings, 0 notes" in ran.err) == (0, True)


def test_lint_says_that_it_leaves_servers_out(cli, tool_file, monkeypatch):
    """No server is started for it, and nobody takes its silence for praise."""
    monkeypatch.setenv("LOOPWORKER_MCP__TIME__COMMAND", "no-such-program")
    ran, one = cli("tools", "lint"), cli("tools", "lint", "double")

    assert ran.code == 0
    assert "tools of MCP servers are not looked at, their words are not yours: time" in ran.err
    assert "MCP" not in one.err


def test_lint_fails_on_warnings(cli, tmp_path, monkeypatch):
    """A description that keeps models from calling is a warning with its place, and exit 1."""
    file = tmp_path / "soft_tools.py"
    file.write_text(GOOD.replace("Double a whole number for the test.", "Maybe doubles a number."))
    monkeypatch.setenv("LOOPWORKER_TOOLS", str(file))
    plain, as_json = cli("tools", "lint"), cli("tools", "lint", "double", "--json")

    assert (plain.code, as_json.code) == (1, 1)
    assert f"{file}:" in plain.out
    assert [each["rule"] for each in json.loads(as_json.out)] == ["soft-word"]


def test_broken_tool_file_names_file_and_line(cli, tool_file):
    """A file that cannot be imported ends with file, line and cause, exit 2."""
    tool_file.write_text("import nothing_of_that_name\n")
    ran = cli("tools")

    assert ran.code == 2
    assert f"{tool_file}:1" in ran.err
    assert "nothing_of_that_name" in ran.err
