"""Which addresses a URL from a stranger may lead to: the public internet, and nothing else.

A model or a web page chooses these URLs, so they must not reach what only this machine can see:
its own services, the private network, the metadata service of a cloud. Judged are the URL as
written and every address before it is connected to; the second judgement is the one that counts.
"""

from __future__ import annotations

import ipaddress
import re

import httpx

from worker.core.errors import ToolError

WEB_PORTS = frozenset({80, 443})
IPV6_GLOBAL = ipaddress.ip_network("2000::/3")  # all that is given out; the rest is special
# Inside 2000::/3, but they carry an IPv4 address or are nobody's: 6to4, Teredo and the other
# protocol assignments, documentation.
IPV6_SPECIAL = tuple(
    ipaddress.ip_network(text) for text in ("2002::/16", "2001::/23", "2001:db8::/32", "3fff::/20")
)
# Special, though some Python versions call them global.
IPV4_SPECIAL = tuple(
    ipaddress.ip_network(text)
    for text in ("0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.88.99.0/24", "198.18.0.0/15")
)
# What a C library may read as an IPv4 address though it is not written like one: 2130706433,
# 0x7f.1, 0177.0.0.1, 127.1. No public name has a last label like these.
NUMERIC_HOST = re.compile(r"(^|\.)(0[xX][0-9a-fA-F]*|[0-9]+)\.?$")


HOST_NAME = re.compile(r"^[a-z0-9_.-]+$")


class UrlRefused(ToolError):
    """The URL leads to where it must not; the text says why, for the model to read."""


def is_public(address: str) -> bool:
    """Say whether an IP address belongs to the public internet.

    Anything that carries another address inside (IPv4-mapped, 6to4, NAT64, Teredo) does not.
    """
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return False  # a zone index among others
    if isinstance(ip, ipaddress.IPv4Address):
        return ip.is_global and not ip.is_multicast and not any(ip in net for net in IPV4_SPECIAL)
    if ip.scope_id is not None or ip not in IPV6_GLOBAL:
        return False
    return ip.is_global and not any(ip in net for net in IPV6_SPECIAL)


def checked_url(
    text: str | httpx.URL, *, ports: frozenset[int] = WEB_PORTS, allow_hosts: frozenset[str]
) -> httpx.URL:
    """Parse a URL and judge it as written; raises UrlRefused.

    Hosts in `allow_hosts` may have any port and any address. A name is not looked up here.
    """
    try:
        url = httpx.URL(text)
        host, port = url.raw_host.decode("ascii"), url.port
    except (httpx.InvalidURL, UnicodeError, ValueError, TypeError) as error:
        raise UrlRefused(f"not a valid URL: {error}") from error
    if url.scheme not in ("http", "https"):
        raise UrlRefused("only http and https URLs can be fetched")
    if not host:
        raise UrlRefused("the URL names no host")
    if url.userinfo:
        raise UrlRefused("a URL with a user name or password is not fetched")
    if host not in allow_hosts:
        port = port or (443 if url.scheme == "https" else 80)
        if port not in ports:
            raise UrlRefused(f"port {port} is not allowed")
        _check_host(host)
    return url.copy_with(fragment=None)


def _check_host(host: str) -> None:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        if NUMERIC_HOST.search(host) or not HOST_NAME.match(host):
            raise UrlRefused(f"{host} is not a host name") from None
    else:
        if not is_public(host):
            raise UrlRefused(f"{host} is not a public address")
