"""What takes logs and traces is broken; the tasks do not notice, nor does the end."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import threading
import time

import pytest

from tests.servers.server import free_port

F_SETPIPE_SZ = 1031  # not in `fcntl` by name on every Python
TASKS = 20


@contextlib.contextmanager
def collector(kind):
    """An address where nobody listens, or where nobody ever answers, or only in drops."""
    if kind == "refusing":
        yield f"http://127.0.0.1:{free_port()}"
        return
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        dripping = threading.Thread(target=drip, args=(server, over))
        if kind == "slow":
            dripping.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        over.set()
        if kind == "slow":
            dripping.join(5)


def drip(server, over):
    """Take every connection and answer with a byte now and then."""
    held = []
    server.settimeout(0.2)
    while not over.is_set():
        with contextlib.suppress(TimeoutError):
            held.append(server.accept()[0])
        for connection in held:
            with contextlib.suppress(OSError):
                connection.send(b"H")
    for connection in held:
        connection.close()


@pytest.mark.parametrize("kind", ["refusing", "silent", "slow"])
async def test_broken_collector_changes_nothing(site, kind):
    """Tasks are answered, and the worker ends within its budget, whatever becomes of spans."""
    with collector(kind) as url:
        worker = site.start(OTEL_EXPORTER_OTLP_ENDPOINT=url, OTEL_BSP_SCHEDULE_DELAY="100")
        for number in range(TASKS):
            await site.submit(f"t{number}", "book a, look b")
        results = [await site.result(f"t{number}", within=15) for number in range(TASKS)]
        asked = time.monotonic()
        code = await worker.stop(within=15)
        taken = time.monotonic() - asked

    assert [result.status for result in results] == ["completed"] * TASKS
    assert code == 0
    assert taken < 9  # 3 s for the spans, one export alone may wait for ten


@pytest.mark.parametrize("kind", ["never read", "closed"])
async def test_blocked_stdout_stalls_nothing(site, kind):
    """Log lines that nobody takes are lost; the tasks are answered and the worker ends."""
    reader, writer = os.pipe()
    fcntl.fcntl(writer, F_SETPIPE_SZ, 4096)
    worker = site.start(stdout=writer, admin=True)
    os.close(writer)
    if kind == "closed":
        os.close(reader)
    await worker.ready()
    for number in range(TASKS):
        await site.submit(f"t{number}", "book a, look b")
    results = [await site.result(f"t{number}", within=15) for number in range(TASKS)]
    healthy = worker.ask("/healthz")[0]
    asked = time.monotonic()
    code = await worker.stop(within=15)
    taken = time.monotonic() - asked
    if kind == "never read":
        os.close(reader)

    assert [result.status for result in results] == ["completed"] * TASKS
    assert (healthy, code) == (200, 0)
    assert taken < 9
    assert worker.log.read_bytes() == b""
