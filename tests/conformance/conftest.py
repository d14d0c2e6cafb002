"""The suites live in the package; their asserts should explain themselves all the same."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("worker.testing")
