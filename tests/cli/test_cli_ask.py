"""One question in the foreground, against the offline model over real HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from worker.model.offline import OfflineModel
from worker.store import open_store

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def model():
    """The offline model server, in a thread."""
    server = OfflineModel(port=0)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def asked(cli, model, monkeypatch):
    """A command line that knows the model and keeps nothing."""
    monkeypatch.delenv("LOOPWORKER_QUEUE_URL")
    monkeypatch.setenv("LOOPWORKER_MODEL_URL", model.url)
    return cli


def test_answer_alone_is_on_stdout(asked, tmp_path):
    """The answer comes from the tool's result; nothing else is printed, no file is left."""
    ran = asked("ask", "现在北京时间几点?")

    assert ran.code == 0
    assert "Asia/Shanghai" in ran.out
    assert ran.out.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_json_is_the_only_output(asked):
    """--json prints the result object of the wire format and nothing beside it."""
    result = json.loads(asked("ask", "What time is it in UTC?", "--json").out)

    assert (result["version"], result["status"]) == (1, "completed")
    assert [call["name"] for call in result["tool_calls"]] == ["get_current_time"]
    assert result["usage"]["model_calls"] == 2


def test_logs_go_to_stderr(asked, monkeypatch):
    """Asked for, the four telemetry points are logged, and not among the output; else it is quiet."""
    assert asked("ask", "What time is it in UTC?").err == ""
    monkeypatch.setenv("LOOPWORKER_LOG_LEVEL", "info")
    ran = asked("ask", "What time is it in UTC?")
    events = [json.loads(line)["event"] for line in ran.err.splitlines() if line[:1] == "{"]

    assert {"agent.loop.start", "agent.tool.before", "agent.tool.after", "agent.loop.end"} <= set(
        events
    )
    assert "{" not in ran.out


def test_degraded_answer_says_so(asked):
    """Without a quote service the stub is the answer, and stderr says what it stood in for."""
    ran = asked("ask", "AAPL 的股价是多少?")

    assert ran.code == 0
    assert "行情暂不可用" in ran.out
    assert ran.err == "loopworker: degraded: get_stock_price: stub (not_configured)\n"


def test_tools_of_a_file_are_offered(asked, tmp_path):
    """--tools FILE offers the tools of that file and no others."""
    file = tmp_path / "weather_tool.py"
    file.write_text(
        "from worker import tool\n\n@tool(effect='read')\ndef get_weather(city: str) -> str:\n"
        '    """查询一个城市的天气。Current weather in a city.\n\n'
        '    Args:\n        city: Name of the city.\n    """\n    return "sunny, 21 °C"\n'
    )
    result = json.loads(
        asked("ask", "What is the weather in Paris?", "--tools", str(file), "--json").out
    )

    assert {call["name"] for call in result["tool_calls"]} <= {"get_weather"}
    assert result["status"] == "completed"


@pytest.mark.parametrize(
    ("text", "said"),
    [("{}", "JSON list"), ("nope", "not JSON"), ('[{"role": "king"}]', "message 0")],
)
def test_bad_history_is_usage(asked, tmp_path, text, said):
    """A history that is no list of messages is one line, exit 2."""
    file = tmp_path / "history.json"
    file.write_text(text)
    ran = asked("ask", "x", "--history", str(file))

    assert (ran.code, said in ran.err) == (2, True)


def test_history_is_taken(asked, tmp_path):
    """Earlier messages of a conversation may be handed in."""
    file = tmp_path / "history.json"
    file.write_text('[{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hi!"}]')

    assert asked("ask", "What time is it in UTC?", "--history", str(file)).code == 0


def test_missing_model_says_what_to_set(cli):
    """Without a model the line names the setting and the offline stand-in, exit 2."""
    ran = cli("ask", "x")

    assert ran.code == 2
    assert "LOOPWORKER_MODEL_URL" in ran.err
    assert "worker.model.offline" in ran.err


def test_model_out_of_reach_is_four(asked, monkeypatch):
    """A model nobody answers for ends with its status on stderr, exit 4."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    monkeypatch.setenv("LOOPWORKER_MODEL_URL", f"http://127.0.0.1:{port}/v1")
    monkeypatch.setenv("LOOPWORKER_MODEL_ATTEMPTS", "1")
    ran = asked("ask", "x")

    assert (ran.code, ran.out) == (4, "")
    assert f"http://127.0.0.1:{port}/v1 does not answer (connection refused)" in ran.err
    assert "not answered: model_unavailable" in ran.err
    assert "ConnectError" not in ran.err.splitlines()[-1]


def test_a_model_that_speaks_no_tls_is_told_so(asked, model, monkeypatch):
    """https at a plain port is no server that is away: the address to write is named."""
    monkeypatch.setenv("LOOPWORKER_MODEL_URL", model.url.replace("http:", "https:"))
    monkeypatch.setenv("LOOPWORKER_MODEL_ATTEMPTS", "1")

    assert f"speaks no TLS; is {model.url} meant?" in asked("ask", "x").err


def test_a_host_that_nobody_knows_is_said_without_the_words_of_a_library(asked, monkeypatch):
    """The address, the reason, and what to look at; each once."""
    monkeypatch.setenv("LOOPWORKER_MODEL_URL", "http://nobody.invalid/v1")
    monkeypatch.setenv("LOOPWORKER_MODEL_ATTEMPTS", "1")
    said = asked("ask", "x").err

    assert "http://nobody.invalid/v1 does not answer (" in said
    assert said.count("nobody.invalid") == 1 and "ssl:" not in said


def test_several_models_out_of_reach_are_all_named(asked, monkeypatch):
    """With a model that stands in, none of the two failures hides the other."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    monkeypatch.setenv("LOOPWORKER_MODEL_URL", f"http://127.0.0.1:{port}/v1")
    monkeypatch.setenv("LOOPWORKER_MODEL_FALLBACKS", f"spare@http://127.0.0.1:{port}/v2")
    monkeypatch.setenv("LOOPWORKER_MODEL_ATTEMPTS", "1")
    ran = asked("ask", "x")

    assert (ran.code, ran.out) == (4, "")
    assert "; then spare: ConnectError" in ran.err


def test_doctor_finds_everything_well(asked, tmp_path, monkeypatch):
    """With all in reach every line is ok; without the model its line says so, exit 4."""
    monkeypatch.setenv("LOOPWORKER_QUEUE_URL", f"sqlite:///{tmp_path / 'd.db'}")
    well = asked("doctor")
    monkeypatch.setenv("LOOPWORKER_MODEL_URL", "http://127.0.0.1:9/v1")
    ill = asked("doctor", "--json")

    assert well.code == 0
    assert all(line.startswith("ok") for line in well.out.splitlines())
    assert [each["what"] for each in json.loads(ill.out) if not each["ok"]] == ["model"]
    assert ill.code == 4


def test_interrupt_is_130():
    """Ctrl-C while the model thinks ends quietly with 130."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(20)
        environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT),
            "LOOPWORKER_MODEL_URL": f"http://127.0.0.1:{silent.getsockname()[1]}/v1",
            "LOOPWORKER_LOG_LEVEL": "error",
        }
        command = [sys.executable, "-m", "worker", "ask", "x"]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        # A job in the background of a shell inherits an ignored SIGINT; a terminal's does not.
        pipes["preexec_fn"] = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)
        with subprocess.Popen(command, env=environment, **pipes) as process:
            try:
                connection, _ = silent.accept()
                with connection:
                    connection.recv(1)  # the model was asked
                    process.send_signal(signal.SIGINT)
                    out, err = process.communicate(timeout=20)
            finally:
                process.kill()

    assert (process.returncode, out) == (130, b"")
    assert b"Traceback" not in err


def test_a_session_goes_on_where_it_was(asked, tmp_path, model):
    """--session keeps the conversation in loopworker.db, for the next question of that name."""
    first = asked("ask", "What time is it in UTC?", "--session", "s1", "--json")
    second = asked("ask", "What time is it in Tokyo?", "--session", "s1", "--json")
    store = open_store(f"sqlite:///{tmp_path / 'loopworker.db'}")

    async def kept():
        try:
            return await store.conversation("s1"), await store.conversation("s2")
        finally:
            await store.close()

    conversation, other = asyncio.run(kept())
    asked_for = [m["content"] for m in conversation if m["role"] == "user"]

    assert (first.code, second.code) == (0, 0)
    assert json.loads(second.out)["session_id"] == "s1"
    assert asked_for == ["What time is it in UTC?", "What time is it in Tokyo?"]
    assert list(other) == []


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--history", "h.json"], "--session and --history"),
        ([], "session_id: 'a\\tb' has control characters"),
    ],
)
def test_a_session_that_cannot_be_is_usage(asked, tmp_path, more, said):
    """Two conversations at once, or a name that nobody could type again, are refused."""
    (tmp_path / "h.json").write_text("[]")
    ran = asked("ask", "hi", "--session", "a\tb", *more)

    assert ran.code == 2
    assert said in ran.err
