"""How the unit part is spread over processes: each test by itself, some of them together.

xdist has marks for this, `--dist loadgroup`, but finds them in a name that pytest 9 took away.
"""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling

# What such tests share is made once in each process, and is dear: parsed sources, a server.
TOGETHER = ("tests/tidy/", "tests/model/test_peer_llmock.py")


class EachTest(LoadScopeScheduling):
    """Hands out single tests, and those together that have more in common than others."""

    def _split_scope(self, nodeid: str) -> str:
        return next((place for place in TOGETHER if nodeid.startswith(place)), nodeid)
