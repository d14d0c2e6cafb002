"""What `doctor` says of a model's dialect, and the code it leaves with."""

from __future__ import annotations

import http.server
import json
import threading

import pytest

from worker.model.offline import OfflineModel


@pytest.fixture
def page(monkeypatch):
    """A web server that answers everything with a page, as the model."""

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.rfile.read(int(self.headers.get("content-length") or 0))
            body = b"<!doctype html><title>Hello</title>"
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, *words):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setenv("LOOPWORKER_MODEL_URL", f"http://127.0.0.1:{server.server_port}")
        yield server
        server.shutdown()
        thread.join(10)


@pytest.fixture
def model(monkeypatch):
    """The offline model, as the model."""
    server = OfflineModel(port=0).start()
    monkeypatch.setenv("LOOPWORKER_MODEL_URL", server.url)
    yield server
    server.stop()


def test_dialect_follows_the_connections(cli, model):
    """The sum comes first, then trait by trait; as JSON with its parts."""
    lines = cli("doctor").out.splitlines()
    data = json.loads(cli("doctor", "--json").out)

    dialect = [line for line in lines if line.split()[1] == "dialect"]
    assert lines[-len(dialect) :] == dialect
    assert "usable, by 4 requests" in dialect[0]
    assert "calls: tool_calls" in dialect[1]
    parts = [each for each in data if "topic" in each]
    assert {each["verdict"] for each in parts} == {"ok"}
    assert {"topic": "calls", "seen": "tool_calls"}.items() <= parts[0].items()


def test_no_probe_asks_nothing(cli, model):
    """With --no-probe the model gets no question."""
    ran = cli("doctor", "--no-probe")

    assert (ran.code, model.requests) == (0, 0)
    assert "dialect" not in ran.out


def test_page_in_place_of_a_model(cli, page):
    """An address that serves pages is set up wrong: 2, with the hint."""
    ran = cli("doctor")

    failed = [line for line in ran.out.splitlines() if line.startswith("FAIL")]
    assert ran.code == 2
    assert len(failed) == 2
    assert "should end in /v1" in failed[1]


def test_model_out_of_reach_is_not_probed(cli, monkeypatch):
    """Of a refused connection one line is enough: 4."""
    monkeypatch.setenv("LOOPWORKER_MODEL_URL", "http://127.0.0.1:9/v1")
    ran = cli("doctor", "--json")

    assert ran.code == 4
    assert [each["what"] for each in json.loads(ran.out) if not each["ok"]] == ["model"]


def test_every_model_of_the_chain_is_asked(cli, model, monkeypatch):
    """Each finding about a stand-in names it, and the settings that are its own."""
    monkeypatch.setenv("LOOPWORKER_MODEL", "offline")
    monkeypatch.setenv("LOOPWORKER_MODEL_FALLBACKS", "offline-2,gone@http://127.0.0.1:9/v1")
    ran = cli("doctor")

    models = [line.split(maxsplit=2)[2] for line in ran.out.splitlines() if " model " in line]
    dialects = [line for line in ran.out.splitlines() if " dialect " in line]
    assert ran.code == 4
    assert [line.partition(" ")[0] for line in models[1:]] == ["offline-2:", "gone:"]
    assert "LOOPWORKER_FALLBACKS__OFFLINE_2__MODEL" in models[1]
    assert "LOOPWORKER_FALLBACKS__GONE__URL" in models[2]
    assert any("offline-2: usable" in line for line in dialects)
    assert not any("gone:" in line for line in dialects)


def test_a_wrong_chain_ends_doctor_with_its_name(cli, model, monkeypatch):
    """As any wrong setting does."""
    monkeypatch.setenv("LOOPWORKER_MODEL_FALLBACKS", "a[eror]")
    ran = cli("doctor")

    assert ran.code == 2
    assert "did you mean error?" in ran.err


def test_an_exception_for_nobody_is_told(cli, model, monkeypatch):
    """The name of a guard that no tool is called by is a typing error, most of the time."""
    monkeypatch.setenv("LOOPWORKER_GUARDS__QUOTES__TIMEOUT_SECONDS", "2")
    monkeypatch.setenv("LOOPWORKER_GUARDS__GET_STOCK_PRICE__ATTEMPTS", "2")
    told = cli("doctor", "--no-probe").out

    assert "LOOPWORKER_GUARDS__QUOTES: no tool and no dependency is called 'quotes'" in told
    assert "GUARDS__GET_STOCK_PRICE" not in told


@pytest.mark.parametrize("setting", ["WAITING__APPROVALS", "LOOP__POLLERS"])
def test_a_list_that_names_no_tool_is_told_shortly(cli, monkeypatch, setting):
    """A call that a person should allow must not slip through by a typing error."""
    monkeypatch.setenv(f"LOOPWORKER_{setting}", "submit_refunds" + "x" * 10_000)
    ran = cli("doctor", "--no-probe")

    assert ran.code == 2
    assert f"LOOPWORKER_{setting}: there is no tool 'submit_refundsxx" in ran.out
    assert len(ran.out) < 2_000


def test_a_tool_of_a_server_may_be_named_before_the_server_is_asked(cli, monkeypatch):
    """Approvals, pollers and hand-off rules know it by the name of its server."""
    monkeypatch.setenv("LOOPWORKER_MCP__CLOCK__COMMAND", "no-such-program")
    monkeypatch.setenv("LOOPWORKER_WAITING__APPROVALS", "clock.set_time")
    monkeypatch.setenv("LOOPWORKER_HANDOFF__LEGAL__TEXT", "lawyer")
    monkeypatch.setenv("LOOPWORKER_HANDOFF__LEGAL__TOOLS", "clock.get_time")

    assert "there is no tool" not in cli("doctor", "--no-probe").out
