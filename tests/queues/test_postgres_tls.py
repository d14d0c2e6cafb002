"""Queue and store on PostgreSQL over TLS, with a certificate that somebody checks."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from tests.queues.postgresrig import native
from tests.servers.postgresserver import own_url, postgres_server
from tests.servers.server import program
from worker.core.errors import ConfigError, QueueUnavailable
from worker.queues import open_queue
from worker.queues.port import Ticket
from worker.store import open_store

pytestmark = pytest.mark.system

TLS = (
    "select pid from pg_stat_ssl join pg_stat_activity using (pid)"
    " where ssl and application_name = 'loopworker'"
)


def certificate(folder):
    """Make a certificate for this machine, and its key; nobody but itself vouches for it."""
    cert, key = folder / "cert.pem", folder / "key.pem"
    made = [
        *(program("openssl"), "req", "-x509", "-newkey", "ec", "-nodes", "-days", "2"),
        *("-pkeyopt", "ec_paramgen_curve:P-256", "-subj", "/CN=test"),
        *("-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(cert)),
    ]
    subprocess.run(made, check=True, capture_output=True, timeout=20)
    return cert, key


@pytest.fixture(scope="module")
def secured():
    """A server that speaks TLS, and its certificate."""
    with postgres_server() as server:
        cert, key = certificate(server.folder)
        key.chmod(0o600)
        if os.geteuid() == 0:
            shutil.chown(key, "nobody", "nogroup")
        for name, value in (("ssl_cert_file", cert), ("ssl_key_file", key), ("ssl", "on")):
            native(server, f"alter system set {name} = '{value}'")
        native(server, "select pg_reload_conf(); select pg_sleep(0.2)")
        yield server, cert


async def test_queue_and_store_work_over_tls(secured):
    """The certificate is checked against the file that is named, and connections are kept."""
    server, cert = secured
    url = own_url(server.port) + f"&sslmode=verify-full&sslrootcert={cert}"
    queue, store = open_queue(url), open_store(url)
    await queue.put(Ticket(id="t-1", body=b"{}"))
    opened = await store.open("t-1", owner="w", lease_seconds=30)
    servers = set()
    for _ in range(5):
        depth = await queue.depth()
        servers |= set(native(server, TLS).split())
    await queue.close()
    await store.close()

    assert depth.ready == 1
    assert opened.run is not None
    assert 1 <= len(servers) <= 2  # kept: what was put is notified beside the next statement


async def test_a_certificate_that_nobody_vouches_for_is_an_outage(secured, tmp_path):
    """It says what is wrong, and where; a file that is not there is told when it is opened."""
    server, _ = secured
    mine, _ = certificate(tmp_path)
    url = own_url(server.port) + "&sslmode=verify-full&sslrootcert="
    queue = open_queue(f"{url}{mine}")
    with pytest.raises(QueueUnavailable, match="certificate verify failed"):
        await queue.depth()
    await queue.close()
    with pytest.raises(ConfigError, match="does not exist"):
        open_queue(f"{url}{tmp_path / 'none.pem'}")
