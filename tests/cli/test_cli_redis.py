"""Commands on a Redis server that holds queue and journal: what `doctor` says of it."""

from __future__ import annotations

import subprocess

import pytest

from tests.servers.redisserver import own_url, redis_server
from tests.servers.server import program
from worker.redisfit import frail

NEVER, SOON = {"aof_enabled": 0}, {"aof_enabled": 1}


@pytest.mark.parametrize(
    ("said", "config", "words"),
    [
        (NEVER, {"save": ""}, "when the server ends, all is lost; set appendonly yes"),
        (
            NEVER,
            {"save": "3600 1", "appendfsync": "everysec"},
            "all since the last one; set append",
        ),
        (NEVER, {}, "snapshots at best"),
        (SOON, {"appendfsync": "no"}, "costs some 30 s; set everysec or always"),
        (SOON, {"save": "", "appendfsync": "everysec"}, ""),
        (SOON, {}, ""),
        ({}, {}, ""),
    ],
)
def test_what_a_crash_would_cost(said, config, words):
    """The worst that is known of it, and what to set; nothing where it costs a second at most."""
    told = frail(said, config)

    assert words in told
    assert bool(words) is bool(told)


@pytest.mark.system
def test_doctor_tells_of_a_server_that_writes_nothing(cli, tmp_path, monkeypatch):
    """Once for queue and store on one server, odd but no failure; no more once it is cured."""
    with redis_server(tmp_path) as server:
        monkeypatch.setenv("LOOPWORKER_QUEUE_URL", own_url(server.port))
        ill = cli("doctor", "--no-probe").out
        native = [program("redis-cli"), "-p", str(server.port)]
        cure = [*native, "CONFIG", "SET", "appendonly", "yes"]
        subprocess.run(cure, check=True, timeout=20, capture_output=True)
        well = cli("doctor", "--no-probe").out

    assert ill.count("all is lost; set appendonly yes") == 1
    [line] = [line for line in ill.splitlines() if "all is lost" in line]
    assert line.startswith("odd ") and line.endswith("(it holds the journal)")
    assert ["ok", "store", "no"] in [
        [*line.split()[:2], *line.split()[3:4]] for line in ill.splitlines()
    ]
    assert "all is lost" not in well
