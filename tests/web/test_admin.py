"""The admin listener against real sockets: probes, scrapes, and strangers who misbehave."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from worker.core.errors import ConfigError
from worker.web.admin import AdminLimits, AdminServer, HealthReport, ReadyReport


class World:
    """What the worker says about itself, for a test to change."""

    def __init__(self) -> None:
        self.tick_age = 0.01
        self.ready = ReadyReport(is_ready=True, state="running")
        self.body = b"up 1\n"
        self.renders: list[str | None] = []
        self.rendering = threading.Event()
        self.may_render = threading.Event()
        self.may_render.set()

    def health(self) -> HealthReport:
        """Report the loop's age."""
        return HealthReport(tick_age_seconds=self.tick_age, limit_seconds=30.0)

    def render(self, accept: str | None) -> tuple[bytes, str]:
        """Count the renderings, and hold one up when told to."""
        self.renders.append(accept)
        self.rendering.set()
        self.may_render.wait(20)
        return self.body, "application/openmetrics-text" if accept == "open" else "text/plain"

    def serve(self, limits: AdminLimits | None = None) -> AdminServer:
        """Build a server on a free port."""
        return AdminServer(
            "127.0.0.1",
            0,
            render=self.render,
            health=self.health,
            ready=lambda: self.ready,
            limits=limits or AdminLimits(cache_seconds=0),
        )


@pytest.fixture
def world() -> World:
    """A worker that is well."""
    return World()


@contextlib.contextmanager
def running(server: AdminServer) -> Iterator[AdminServer]:
    """Start and stop a server."""
    server.start()
    try:
        yield server
    finally:
        server.stop()


def fetch(
    url: str, *, method: str = "GET", accept: str = "*/*", timeout: float = 10
) -> tuple[int, bytes, dict[str, str]]:
    """Ask with the standard library's client: status, body, headers in lower case."""
    request = urllib.request.Request(url, method=method, headers={"Accept": accept})
    try:
        with urllib.request.urlopen(request, timeout=timeout) as reply:
            headers = {name.lower(): value for name, value in reply.headers.items()}
            return reply.status, reply.read(), headers
    except urllib.error.HTTPError as error:
        with error:
            headers = {name.lower(): value for name, value in error.headers.items()}
            return error.code, error.read(), headers


def until(condition: Callable[[], bool], *, seconds: float = 10) -> None:
    """Wait for a condition, with a limit."""
    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends, "the condition never held"
        threading.Event().wait(0.005)


def raw(server: AdminServer, request: bytes) -> bytes:
    """Send bytes and read until the server closes."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as client:
        client.sendall(request)
        parts = []
        while part := client.recv(65_536):
            parts.append(part)
        return b"".join(parts)


def test_health_follows_the_age_of_the_tick(world):
    """Health is green while the loop is younger than its limit, then red and says how long."""
    with running(world.serve()) as server:
        well = fetch(server.url + "/healthz")
        world.tick_age = 42.31
        stuck = fetch(server.url + "/healthz")

    assert (well[0], json.loads(well[1])["status"]) == (200, "ok")
    assert stuck[0] == 503
    assert "has not ticked for 42.3 s (limit 30 s)" in json.loads(stuck[1])["reason"]
    assert json.loads(stuck[1])["last_tick_seconds_ago"] == 42.31


def test_readiness_is_red_while_draining(world):
    """A worker that does not claim is not ready and says what it does instead."""
    with running(world.serve()) as server:
        well = fetch(server.url + "/readyz")
        world.ready = ReadyReport(is_ready=False, state="draining", reason="SIGTERM")
        draining = fetch(server.url + "/readyz")

    assert well[0] == 200
    assert draining[0] == 503
    assert json.loads(draining[1]) == {
        "status": "not ready",
        "state": "draining",
        "reason": "SIGTERM",
    }


def test_accept_header_reaches_the_renderer(world):
    """The form of the metrics is negotiated, and caches are told that it depends on Accept."""
    with running(world.serve()) as server:
        status, body, headers = fetch(server.url + "/metrics", accept="open")

    assert (status, body, world.renders) == (200, b"up 1\n", ["open"])
    assert headers["content-type"] == "application/openmetrics-text"
    assert headers["vary"] == "Accept"


def test_head_has_no_body(world):
    """HEAD answers like GET, without the body but with its length."""
    with running(world.serve()) as server:
        answer = raw(server, b"HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n")

    head, _, body = answer.partition(b"\r\n\r\n")
    assert body == b""
    assert b"Content-Length: 5" in head
    assert answer.startswith(b"HTTP/1.1 200 OK")


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"POST /metrics HTTP/1.1\r\n\r\n", b"405"),
        (b"DELETE /healthz HTTP/1.1\r\n\r\n", b"405"),
        (b"GET /secret HTTP/1.1\r\n\r\n", b"404"),
        (b"GET /v1/tasks HTTP/1.1\r\n\r\n", b"404"),
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET /metrics SPDY/3\r\n\r\n", b"400"),
        (b"GET /metrics HTTP/1.1\r\nX: " + b"a" * 40_000 + b"\r\n\r\n", b"431"),
        (b"\xff\xfe\x00\r\n\r\n", b"400"),
    ],
)
def test_odd_requests_are_refused(world, request_bytes, status):
    """Anything but GET and HEAD of the three pages gets a 4xx, and the server goes on."""
    with running(world.serve()) as server:
        answer = raw(server, request_bytes)
        after = fetch(server.url + "/healthz")

    assert b"HTTP/1.1 " + status == answer[:12]
    assert after[0] == 200
    assert world.renders == []


def test_probe_does_not_wait_behind_a_rendering(world):
    """Health answers while a scrape is still being rendered."""
    world.may_render.clear()
    with running(world.serve()) as server, ThreadPoolExecutor(1) as pool:
        scrape = pool.submit(fetch, server.url + "/metrics")
        assert world.rendering.wait(10)
        probe = fetch(server.url + "/healthz")
        world.may_render.set()

        assert probe[0] == 200
        assert scrape.result(10)[0] == 200


def test_simultaneous_scrapes_render_once(world):
    """Eight scrapes at once cost one rendering."""
    world.may_render.clear()
    with running(world.serve()) as server, ThreadPoolExecutor(8) as pool:
        scrapes = [pool.submit(fetch, server.url + "/metrics") for _ in range(8)]
        until(lambda: sum(not c.is_asking for c in list(server._connections.values())) == 8)
        world.may_render.set()

        assert [scrape.result(10)[0] for scrape in scrapes] == [200] * 8
    assert len(world.renders) == 1


def test_snapshot_is_reused_and_then_renewed(world):
    """A scrape soon after another gets the same snapshot; a later one gets a new one."""
    with running(world.serve(AdminLimits(cache_seconds=0.2))) as server:
        first = fetch(server.url + "/metrics")[1]
        world.body = b"up 2\n"
        again = fetch(server.url + "/metrics")[1]
        until(lambda: fetch(server.url + "/metrics")[1] == b"up 2\n")

    assert b"up 1\n" == first == again


def test_renderer_that_raises_is_told(world):
    """A collector that raises gives 500 and the kind of error; the next scrape is well again."""
    calls = []

    def render(accept: str | None) -> tuple[bytes, str]:
        calls.append(accept)
        if len(calls) == 1:
            raise UnicodeEncodeError("utf-8", "\udce2", 0, 1, "surrogates not allowed")
        return b"fine\n", "text/plain"

    world.render = render
    with running(world.serve()) as server:
        broken = fetch(server.url + "/metrics")
        mended = fetch(server.url + "/metrics")

    assert broken[:2] == (500, b"UnicodeEncodeError: cannot answer /metrics\n")
    assert mended[:2] == (200, b"fine\n")


@pytest.mark.timing
def test_three_hundred_half_open_requests_do_not_delay_a_scrape(world):
    """Under slowloris a scrape takes under a second, and neither threads nor connections grow."""
    with running(world.serve()) as server, contextlib.ExitStack() as stack:
        fetch(server.url + "/metrics")
        threads = threading.active_count()
        for _ in range(300):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), 10))
            client.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n")
        began = time.monotonic()
        answers = [fetch(server.url + path)[0] for path in ("/metrics", "/healthz", "/readyz")]
        took = time.monotonic() - began

        assert answers == [200, 200, 200]
        assert took < 1.0
        assert threads == threading.active_count()
        until(lambda: len(server._connections) <= 32)


def test_half_open_request_is_dropped_in_time(world):
    """A client that never finishes its request is cut off after the limit."""
    limits = AdminLimits(read_seconds=0.1, cache_seconds=0)
    with running(world.serve(limits)) as server:
        assert quiet(server, b"GET /healthz HTTP/1.1\r\n") == b""
        until(lambda: not server._connections)


def test_reader_that_stops_reading_is_dropped_in_time(world):
    """A client that does not read a big exposition is cut off, and nothing of it stays behind."""
    world.body = b"x" * 30_000_000
    limits = AdminLimits(write_seconds=0.2, cache_seconds=0)
    with running(world.serve(limits)) as server:
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as client:
            client.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
            until(lambda: len(server._connections) == 1)
            until(lambda: not server._connections)

        assert fetch(server.url + "/healthz")[0] == 200


def test_port_that_is_taken_is_a_config_error(world):
    """An address in use ends the start with the setting to change."""
    with running(world.serve()) as server:
        second = world.serve()
        second.port = server.port

        with pytest.raises(ConfigError, match="LOOPWORKER_ADMIN"):
            second.start()


def test_stop_frees_the_port_and_the_thread(world):
    """After stop nothing listens, no thread is left, and stopping again does nothing."""
    server = world.serve()
    server.start()
    fetch(server.url + "/metrics")
    port = server.port
    server.stop()
    server.stop()

    with socket.create_server(("127.0.0.1", port)):
        pass
    until(lambda: not any(thread.name.startswith("admin") for thread in threading.enumerate()))


def quiet(server: AdminServer, request: bytes) -> bytes:
    """Send bytes and read what comes until the connection ends, however it ends."""
    try:
        return raw(server, request)
    except ConnectionResetError:
        return b""
