"""What holds for every test: a clean environment, no network beyond loopback, a strict loop."""

from __future__ import annotations

import gc
import ipaddress
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis
import pytest

STRICT = os.environ.get("STRICT") == "1" or os.environ.get("CI") == "true"

# Settings of the person who runs the tests must not reach the worker under test.
FOREIGN_PREFIXES = ("LOOPWORKER_", "OPENAI_", "OTEL_", "PROMETHEUS_")
FOREIGN_NAMES = {"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "FORCE_COLOR", "NO_COLOR"}

# Names that RFC 6761 and RFC 2606 promise never to exist: answered here, without asking anyone.
RESERVED_SUFFIXES = (".invalid", ".test", ".example", "example.com", "example.org")


class NetworkForbidden(RuntimeError):
    """A test tried to leave this machine.

    Not an OSError: the guard would take that for a failing dependency and the test would pass.
    """


def pytest_configure(config: pytest.Config) -> None:
    """Clean the environment before any of our modules is imported, and close the network."""
    for name in list(os.environ):
        if name.upper() in FOREIGN_NAMES or name.upper().startswith(FOREIGN_PREFIXES):
            del os.environ[name]
    sys.addaudithook(forbid_network)
    # In strict mode every run tries the same examples: a red run is a fact, not luck.
    hypothesis.settings.register_profile("strict", deadline=None, derandomize=True)
    hypothesis.settings.register_profile("search", deadline=None)
    hypothesis.settings.load_profile("strict" if STRICT else "search")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark everything below tests/system, so that no file there can forget to.

    The files with slow tests come first: else one process ends with them while the others idle.
    """
    home = Path(__file__).parent / "system"
    for item in items:
        if item.path.is_relative_to(home):
            item.add_marker(pytest.mark.system)
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


def pytest_collection() -> None:
    """Let the garbage collector rest while tests are collected: a quarter of the time was its."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Keep it off what collection has made: to look through all that takes a while each time."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(optionalhook=True)  # without xdist there is nothing to schedule
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Take ours for `--dist loadgroup`."""
    if config.getvalue("dist") != "loadgroup":
        return None
    from tests.spreading import EachTest

    return EachTest(config, log)


def forbid_network(event: str, arguments: tuple[object, ...]) -> None:
    """Refuse look-ups and connections that would leave the loopback interface."""
    if event in ("socket.connect", "socket.sendto"):
        address = arguments[1]
        host = address[0] if isinstance(address, tuple) else ""  # a text is a path of AF_UNIX
        if isinstance(host, str) and not is_local(host):
            raise NetworkForbidden(f"a test tried to connect to {host}")
    elif event == "socket.getaddrinfo":
        host = arguments[0]
        host = host.decode() if isinstance(host, bytes) else host
        if not isinstance(host, str) or is_address(host) or is_local(host):
            return
        if host.lower().endswith(RESERVED_SUFFIXES):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        raise NetworkForbidden(f"a test tried to look up {host}")


def is_address(host: str) -> bool:
    """Say whether the text is an IP address, which needs no look-up."""
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def is_local(host: str) -> bool:
    """Say whether packets to this host stay on this machine."""
    if host in ("", "localhost", "0.0.0.0", "::") or host.endswith(".localhost"):
        return True
    return is_address(host) and ipaddress.ip_address(host.partition("%")[0]).is_loopback


@pytest.fixture
def need() -> Callable[[bool, str], None]:
    """Skip the test where something is missing; in strict mode, fail it.

    A laptop may lack a server. Where the tests decide about a release, a skip would be a lie.
    """

    def check(condition: object, reason: str) -> None:
        if not condition:
            (pytest.fail if STRICT else pytest.skip)(reason)

    return check
