"""A part of a Redis server for the suites."""

from __future__ import annotations

from dataclasses import replace

from tests.conformance.atserver import BehindProxy
from tests.servers.proxy import Proxy
from tests.servers.redisserver import own_url
from worker.redislink import LinkSettings, settings_of


class OneServer(BehindProxy):
    """What the harnesses of queue and store share."""

    def __init__(self, proxy: Proxy) -> None:
        super().__init__(proxy)
        settings = settings_of(own_url(proxy.port))
        self.settings: LinkSettings = replace(settings, shift=lambda: self.moved)
