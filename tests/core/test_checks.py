"""Settings that are well alone and contradict each other are refused at the start."""

from __future__ import annotations

import pytest

from worker.configuration import load
from worker.core.errors import ConfigError


@pytest.mark.parametrize(
    ("well", "wrong", "named"),
    [
        (
            {"GUARD__FAIL_MAX": "5", "GUARD__ATTEMPTS": "3"},
            {"GUARD__FAIL_MAX": "4", "GUARD__ATTEMPTS": "3"},
            "GUARD__FAIL_MAX",
        ),
        (
            {"GUARD__DEADLINE_SECONDS": "5", "GUARD__TIMEOUT_SECONDS": "5"},
            {"GUARD__DEADLINE_SECONDS": "4", "GUARD__TIMEOUT_SECONDS": "5"},
            "GUARD__DEADLINE_SECONDS",
        ),
        (
            {"GUARD__WINDOW_CALLS": "9", "GUARD__WINDOW_CALLS_MIN": "9"},
            {"GUARD__WINDOW_CALLS": "9", "GUARD__WINDOW_CALLS_MIN": "10"},
            "GUARD__WINDOW_CALLS_MIN",
        ),
        (
            {"GUARD__OPEN_SECONDS": "60"},
            {"GUARD__OPEN_SECONDS": "61"},
            "GUARD__OPEN_SECONDS",
        ),
        (
            {"WORKER__DRAIN_SECONDS": "25"},
            {"WORKER__DRAIN_SECONDS": "26"},
            "WORKER__DRAIN_SECONDS",
        ),
        ({"ADMIN": "127.0.0.1:65535"}, {"ADMIN": "127.0.0.1:65536"}, "ADMIN"),
        (
            {"MODEL_URL": "http://a/v1", "MODEL_FALLBACKS": "b"},
            {"MODEL_URL": "http://a/v1", "MODEL_FALLBACKS": "b[no_such_cause]"},
            "MODEL_FALLBACKS",
        ),
    ],
    ids=["fail-max", "deadline", "window", "open", "drain", "port", "fallbacks"],
)
def test_a_contradiction_is_told_and_its_edge_is_not(well, wrong, named):
    """The last value that holds is taken, the next one names its setting."""
    load({f"LOOPWORKER_{name}": value for name, value in well.items()})

    with pytest.raises(ConfigError, match=f"^LOOPWORKER_{named}"):
        load({f"LOOPWORKER_{name}": value for name, value in wrong.items()})
