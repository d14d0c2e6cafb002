"""The fences of conftest.py themselves hold."""

from __future__ import annotations

import os
import socket

import pytest


def test_connection_beyond_loopback_is_refused():
    """A test that connects to another machine fails loudly, not as a network error."""
    with socket.socket() as outside, pytest.raises(RuntimeError, match="tried to connect"):
        outside.connect(("192.0.2.1", 80))


def test_lookup_of_a_real_name_is_refused():
    """A test that asks a name server fails loudly."""
    with pytest.raises(RuntimeError, match="tried to look up"):
        socket.getaddrinfo("loopworker.dev", 80)


def test_reserved_name_does_not_exist():
    """A name that can never exist is not found, without a name server."""
    with pytest.raises(socket.gaierror):
        socket.getaddrinfo("shop.invalid", 80)


def test_loopback_is_open():
    """A server of the test's own can be reached."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname()).close()


def test_environment_is_clean():
    """No setting of the person running the tests reaches the worker."""
    foreign = [name for name in os.environ if name.startswith(("LOOPWORKER_", "OPENAI_", "OTEL_"))]

    assert foreign == []
