"""Servers are named in the environment or in the file; what is secret is never shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from worker.configuration import effective, load
from worker.core.errors import ConfigError
from worker.mcp.servers import mcp_policies
from worker.observability import build_observability
from worker.running.toolguard import default_policy

TOKEN = "t0psecret-value"
STDIO = {
    "LOOPWORKER_MCP__GIT__COMMAND": "uvx",
    "LOOPWORKER_MCP__GIT__ARGS": "mcp-server-git --token abc123 --api-key=xyz --repo '/a b'",
    "LOOPWORKER_MCP__GIT__ENV__GITHUB_TOKEN": TOKEN,
    "LOOPWORKER_MCP__GIT__ENV__Mode": "production",
}
HTTP = {
    "LOOPWORKER_MCP__DOCS__URL": "https://example.com/mcp?api_key=hidden7&x=1",
    "LOOPWORKER_MCP__DOCS__HEADERS__AUTHORIZATION": f"Bearer {TOKEN}",
    "LOOPWORKER_MCP__DOCS__HEADERS__X_TEAM": "blue",
}


def test_a_server_is_read_from_the_environment():
    """Words as a shell splits them, names of variables as they are spelt, headers with dashes."""
    settings = load(STDIO | HTTP).settings
    git, docs = settings.mcp["git"], settings.mcp["docs"]
    assert git.command == "uvx"
    assert git.args[-1] == "/a b"
    assert {name: v.get_secret_value() for name, v in git.env.items()} == {
        "GITHUB_TOKEN": TOKEN,
        "Mode": "production",
    }
    assert set(docs.headers) == {"AUTHORIZATION", "X-TEAM"}


def test_a_server_is_read_from_the_file(tmp_path: Path):
    """A table per server, with tables inside."""
    file = tmp_path / "loopworker.toml"
    file.write_text(
        '[mcp.time]\ncommand = "x"\nargs = ["-m", "time"]\nenv = { TZ = "UTC" }\n'
        'effects = { "get_*" = "read" }\n'
    )
    time = load({"LOOPWORKER_MCP__TIME__ENV__KEY": "k"}, file=file).settings.mcp["time"]
    assert time.args == ("-m", "time")
    assert set(time.env) == {"TZ", "KEY"}
    assert time.effects == {"get_*": "read"}


def test_secrets_are_shown_by_no_command():
    """Neither values of env and headers nor what stands behind --token, nor a key in the URL."""
    shown = {each.name: each.value for each in effective(load(STDIO | HTTP))}
    assert shown["LOOPWORKER_MCP__GIT__ENV"] == {"GITHUB_TOKEN": "********", "Mode": "********"}
    assert shown["LOOPWORKER_MCP__GIT__ARGS"] == [
        "mcp-server-git",
        "--token",
        "********",
        "--api-key=********",
        "--repo",
        "/a b",
    ]
    assert shown["LOOPWORKER_MCP__DOCS__URL"] == "https://example.com/mcp?api_key=********&x=1"
    assert TOKEN not in repr(shown)


def test_secrets_are_taken_out_of_whatever_is_logged():
    """A server may print its own token; ordinary words of its environment are left alone."""
    seen = build_observability(load(STDIO | HTTP).settings, worker_id="w")
    assert seen.redactor.text(f"using {TOKEN} in production") == "using [redacted] in production"


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({}, "needs LOOPWORKER_MCP__X__COMMAND"),
        ({"COMMAND": "a", "URL": "http://127.0.0.1/"}, "and not both"),
        ({"URL": "ftp://example.com/"}, r"must be an http\(s\) URL"),
        ({"URL": "http://example.com:99999/mcp"}, r"must be an http\(s\) URL"),
        ({"URL": "http://example.com:port/mcp"}, r"must be an http\(s\) URL"),
        ({"URL": "http://user:pass@example.com/"}, "put the key into .*HEADERS"),
        ({"URL": "http://169.254.169.254/mcp"}, "metadata"),
        ({"URL": "http://[fe80::1]/mcp"}, "metadata"),
        ({"URL": "http://0.0.0.0/mcp"}, "metadata"),
        ({"URL": "http://example.com/mcp#here"}, "fragment"),
        ({"URL": "http://127.0.0.1/", "ARGS": "a"}, "ARGS: is for a COMMAND"),
        ({"COMMAND": "a", "HEADERS__X": "y"}, "HEADERS: is for a URL"),
        ({"URL": "http://127.0.0.1/", "HEADERS__X": "a\nb"}, r"printable ASCII only, not .*n"),
        ({"URL": "http://127.0.0.1/", "HEADERS__X Y": "a"}, "'X Y' is no name of a header"),
        ({"URL": "http://127.0.0.1/", "HEADERS__X": "a…"}, r"HEADERS__X: .*, not '\\u2026'"),
        ({"COMMAND": "a", "ENV__X": "a\0b"}, "NUL"),
        ({"COMMAND": "a", "RESTART_SECONDS": "90"}, "RESTART_SECONDS_MAX"),
        ({"COMMAND": "a", "EFFECTS": "x=maybe"}, "LOOPWORKER_MCP__X__EFFECTS"),
        ({"COMMAND": "a", "EFFECTS": "read"}, "EFFECTS: must be name=value, .*, got 'read'"),
        ({"COMMAND": "a", "EFFECTS": '{"a":1'}, "EFFECTS: is no JSON: "),
        ({"COMMAND": "a", "ARGS": "[" * 100_000}, "ARGS: is nested too deeply"),
        ({"COMMAND": "a", "STUBS": '{"a":' * 100_000}, "STUBS: is nested too deeply"),
        ({"COMMAND": "a", "COMMADN": "b"}, "did you mean LOOPWORKER_MCP__X__COMMAND"),
    ],
)
def test_what_is_set_up_wrong_is_said(said: dict[str, str], message: str):
    """The setting is named, and what to do; a value that may be secret is not repeated."""
    environment = {f"LOOPWORKER_MCP__X__{name}": text for name, text in said.items()}
    if not said:
        environment = {"LOOPWORKER_MCP__X__LIMIT": "3"}
    with pytest.raises(ConfigError, match=message):
        load(environment)


def test_a_wrong_secret_is_not_repeated():
    """The message names the setting alone."""
    with pytest.raises(ConfigError) as hit:
        load(
            {"LOOPWORKER_MCP__X__COMMAND": "a", "LOOPWORKER_MCP__X__ENV": f"{TOKEN} without a sign"}
        )
    assert TOKEN not in str(hit.value)
    assert "LOOPWORKER_MCP__X__ENV" in str(hit.value)


def test_each_server_has_a_guard_of_its_own():
    """Its limit, and what operations say of the guard by its name."""
    settings = load(
        {
            "LOOPWORKER_MCP__A__COMMAND": "a",
            "LOOPWORKER_MCP__A__LIMIT": "2",
            "LOOPWORKER_MCP__B__COMMAND": "b",
            "LOOPWORKER_GUARDS__MCP_B__FAIL_MAX": "9",
        }
    ).settings
    policies = mcp_policies(settings, default_policy(settings.guard))
    assert policies["mcp_a"].limit == 2
    assert policies["mcp_b"].fail_max == 9
    assert policies["mcp_b"].limit == default_policy(settings.guard).limit


def test_a_name_that_no_server_may_have_is_said():
    """In plain words, and shown in part: it is as long as somebody made it."""
    with pytest.raises(ConfigError) as hit:
        load({f"LOOPWORKER_MCP__{'X' * 5000}__COMMAND": "a"})
    said = str(hit.value)
    assert said.startswith("LOOPWORKER_MCP__XXXX")
    assert said.endswith("X…: is no name; write a letter, then at most 31 letters, digits, - and _")
    assert len(said) < 250
