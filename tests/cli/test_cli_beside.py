"""What is said beside the output of a command, and streams that are closed or were never open."""

from __future__ import annotations

import asyncio
import errno
import io
import json
import logging
import os
import subprocess
import sys
from unittest import mock

import pytest

from worker.cli import complain, exits, explain, readable
from worker.cli.advice import advice
from worker.cli.aside import tell_strays
from worker.cli.output import tell
from worker.cli.tasks import print_result
from worker.configuration import load
from worker.core.errors import QueueUnavailable
from worker.core.limits import Status
from worker.core.task import Result
from worker.observability import build_observability, redactor_of

LOUD = '''
import logging, sys
from worker import tool
print("at import")

@tool(effect="read")
def loud(close: bool = False) -> str:
    """Say something in every way that Python has."""
    print("in the call")
    logging.getLogger("library").warning("token=%s", "abcdef0123456789")
    if close:
        sys.stdout.close()
        sys.stderr.close()
    return "result"
'''


@pytest.fixture
def loud(tmp_path, monkeypatch):
    """A tool file that is anything but quiet."""
    (tmp_path / "loud.py").write_text(LOUD)
    monkeypatch.setenv("LOOPWORKER_TOOLS", str(tmp_path / "loud.py"))


def test_json_of_a_command_is_json_whatever_a_tool_prints(cli, loud, monkeypatch):
    """Prints and log lines stand on stderr, and secrets in them are masked."""
    monkeypatch.setenv("LOOPWORKER_LOG_LEVEL", "warning")
    monkeypatch.setenv("LOOPWORKER_LOG_LEVEL", "warning")
    listed, called = cli("tools", "--json"), cli("tools", "call", "loud", "--json")

    assert [tool["name"] for tool in json.loads(listed.out)] == ["loud"]
    assert json.loads(called.out)["content"] == "result"
    assert "in the call" in called.err
    assert '"message":"token=[redacted]"' in called.err


def shell(command: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Type a line into a shell, `loopworker` being the command under test."""
    line = command.replace("loopworker", f"{sys.executable} -m worker")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **settings}
    return subprocess.run(
        line, shell=True, env=environment, capture_output=True, text=True, timeout=30, check=False
    )


@pytest.mark.system
@pytest.mark.parametrize(
    ("command", "code", "out"),
    [
        ("loopworker tools call loud close=true", 0, "result\n"),
        ("loopworker tools call loud 2>&-", 0, "result\n"),
        ("loopworker tools call loud <&- >&- 2>&-", 0, ""),
        ("loopworker tools call quiet 2>&-", 2, ""),
        ("loopworker tools call loud >/dev/full", 4, ""),
    ],
)
def test_closed_streams_cost_no_more_than_what_was_to_stand_there(loud, command, code, out):
    """Whoever closes one, the exit code and the other streams are as ever; no traceback."""
    ran = shell(command)

    assert (ran.returncode, ran.stdout) == (code, out)
    assert "Traceback" not in ran.stderr
    assert "object" not in ran.stderr


def test_question_that_is_no_utf8_is_refused(cli):
    """As `submit` does; nobody is asked about replacement characters."""
    ran = cli("ask", os.fsdecode(b"caf\xe9"))

    assert (ran.code, ran.err) == (2, "loopworker: the text is not UTF-8 (byte 3)\n")


def test_words_for_a_stream_that_is_closed_are_dropped(monkeypatch):
    """Neither the error nor the way out fails over it."""
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stderr", closed)
    tell("nobody hears it")

    assert complain("nobody hears it", 4) == 4
    assert exits.leave(0) == 0


@pytest.mark.parametrize(
    ("status", "error", "names"),
    [
        ("auth_error", "HTTP 401: no", "LOOPWORKER_API_KEY"),
        ("bad_request", "HTTP 404: page not found", "LOOPWORKER_MODEL_URL"),
        ("protocol_error", "HTTP 302", "LOOPWORKER_MODEL_URL"),
        ("timeout", "no answer within 4 s", "LOOPWORKER_MODEL_TIMEOUT"),
    ],
)
def test_end_by_the_server_says_what_can_be_done(capsys, status, error, names):
    """After the line that says what happened; JSON is left as it is."""
    result = Result("t", Status(status), error=error)
    print_result(result)
    told = capsys.readouterr().err
    print_result(result, as_json=True)

    assert told.splitlines()[0] == f"loopworker: not answered: {status}: {error}"
    assert names in told.splitlines()[1]
    assert names not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("status", "error"), [("bad_request", "HTTP 400: no"), ("cancelled", None)]
)
def test_other_ends_speak_for_themselves(status, error):
    """No advice where there is none to give."""
    assert advice(Result("t", Status(status), error=error)) is None


def test_lack_of_file_descriptors_is_said_so():
    """Also where it comes out of a group of tasks."""
    error = OSError(errno.EMFILE, "Too many open files")
    told, code = explain(ExceptionGroup("tasks", [ExceptionGroup("tasks", [error])]))

    assert (told, code) == ("Too many open files: raise the limit (ulimit -n)", 4)


def test_working_folder_that_is_gone_is_said_so(cli, tmp_path, monkeypatch):
    """A relative path means nothing there."""
    (tmp_path / "gone").mkdir()
    monkeypatch.setenv("LOOPWORKER_QUEUE_URL", "sqlite:///tasks.db")
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    monkeypatch.setattr("os.path.abspath", mock.Mock(side_effect=FileNotFoundError))
    ran = cli("status", "t")
    monkeypatch.chdir(tmp_path)

    assert ran.code == 2
    assert "the working folder is gone" in ran.err


@pytest.mark.parametrize("value", ["::bad:secret", "http://me:secret@host:port", "gopher://secret"])
def test_proxy_that_cannot_be_used_is_named_without_its_value(cli, monkeypatch, loud, value):
    """It may hold a password. Nothing of the process stays as the command had set it."""
    handlers = logging.getLogger().handlers[:]
    monkeypatch.setenv("HTTP_PROXY", value)
    monkeypatch.setenv("http_proxy", value)
    monkeypatch.setenv("LOOPWORKER_OUTBOUND__PROXIES_FROM_ENVIRONMENT", "true")
    ran = cli("tools", "call", "loud")

    assert ran.code == 2
    assert "HTTP_PROXY is no proxy that can be used" in ran.err
    assert "secret" not in ran.err
    assert logging.getLogger().handlers == handlers


def test_quoted_values_cannot_move_the_cursor():
    """Control characters are written as such, and a message is no longer than a screen."""
    told = readable("a\x1b[31m行情\n" + "x" * 100_000)

    assert told.startswith("a\\x1b[31m行情\nxxx")
    assert len(told) < 5_000


def test_strays_are_one_line_once_the_log_is_closed(capsys, monkeypatch):
    """While it is open they are lines of the log."""
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    loop = asyncio.new_event_loop()
    tell_strays(loop, {"message": "never retrieved", "exception": ValueError("a\nb")})
    loop.close()

    assert capsys.readouterr().err == "loopworker: never retrieved: ValueError: a b\n"


@pytest.mark.parametrize(
    "account",
    [
        {"LOOPWORKER_API_KEY": "plain-word-one"},
        {"LOOPWORKER_MODEL_URL": "http://me:plain-word-four@127.0.0.1:1/v1"},
    ],
)
def test_every_secret_of_the_settings_is_masked_by_its_value(account):
    """Keys of the stand-ins and passwords within URLs as well, wherever an upstream echoes them."""
    secrets = {
        "LOOPWORKER_HTTP_TOKEN": "plain-word-two",
        "LOOPWORKER_MODEL_FALLBACKS": "spare",
        "LOOPWORKER_FALLBACKS__SPARE__API_KEY": "plain-word-three",
        "LOOPWORKER_FALLBACKS__SPARE__URL": "http://127.0.0.1:2/v1",
        "LOOPWORKER_QUEUE_URL": "redis://:plain-word-five@127.0.0.1:1/0",
        "LOOPWORKER_STORE_URL": "redis://:plain-word-six@127.0.0.1:1/0",
        **account,
    }
    seen = build_observability(load(secrets).settings, worker_id="t", stream=io.StringIO())
    seen.logs.close()

    said = " ".join(text.partition("//")[2] or text for text in secrets.values())
    assert "plain-word" in said
    assert "plain-word" not in seen.redactor.text(said.replace(":", " ").replace("@", " "))


def test_a_url_that_cannot_be_taken_apart_is_refused_where_it_is_opened():
    """Not by whoever looks for a password in it."""
    settings = load({"LOOPWORKER_QUEUE_URL": "redis://[::1"}).settings

    assert redactor_of(settings).text("as it was") == "as it was"


def test_a_cause_that_the_error_tells_itself_is_not_told_again():
    """Once is enough, and none is left out."""
    told = QueueUnavailable("the server cannot be used: connection refused")
    told.__cause__ = OSError("connection refused")
    brief = QueueUnavailable("the server cannot be used")
    brief.__cause__ = OSError("connection refused")

    assert explain(told) == ("the server cannot be used: connection refused", 4)
    assert explain(brief) == ("the server cannot be used (connection refused)", 4)
