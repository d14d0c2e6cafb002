"""Queue and store over TLS, with a certificate that somebody checks."""

from __future__ import annotations

import subprocess

import pytest

from tests.servers.redisserver import own_url, redis_server
from tests.servers.server import program
from worker.core.errors import QueueUnavailable
from worker.queues import open_queue
from worker.queues.port import Ticket
from worker.store import open_store

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    """A server that speaks TLS alone, and the folder with its certificate."""
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    made = [
        *(
            program("openssl"),
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
        ),
        *("-nodes", "-days", "2", "-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1"),
        *("-keyout", str(key), "-out", str(cert)),
    ]
    subprocess.run(made, check=True, capture_output=True, timeout=20)
    options = (
        *("--tls-cert-file", str(cert), "--tls-key-file", str(key), "--tls-auth-clients", "no"),
        *("--tls-ca-cert-file", str(cert)),
    )
    with redis_server(folder, *options, tls=True) as server:
        yield server, cert


async def test_queue_and_store_work_over_tls(secured):
    """The certificate is checked against the file that is named."""
    server, cert = secured
    url = own_url(server.port).replace("redis://", "rediss://") + f"&ssl_ca_certs={cert}"
    queue, store = open_queue(url), open_store(url)
    await queue.put(Ticket(id="t-1", body=b"{}"))
    depth = await queue.depth()
    opened = await store.open("t-1", owner="w", lease_seconds=30)
    await queue.close()
    await store.close()

    assert depth.ready == 1
    assert opened.run is not None


@pytest.mark.parametrize(
    ("scheme", "said"),
    [("rediss", "certificate verify failed"), ("redis", "Redis at 127")],
)
async def test_a_certificate_that_nobody_vouches_for_is_an_outage(secured, scheme, said):
    """As is a server that is spoken to without TLS; both say what is wrong, and where."""
    server, _ = secured
    queue = open_queue(own_url(server.port).replace("redis:", f"{scheme}:"))
    with pytest.raises(QueueUnavailable, match=said):
        await queue.depth()
    await queue.close()
