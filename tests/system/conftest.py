"""A site for each test, and its logs beside every failure."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.system.planmodel import PlanModel
from tests.system.processes import Site


@pytest.fixture
async def site(tmp_path, request):
    """A folder with a queue, a model server and no worker yet."""
    model = PlanModel()
    site = Site(tmp_path, model)
    request.node.stash[SITE] = site
    yield site
    await site.close()
    model.close()


HERE = Path(__file__).parent
SITE = pytest.StashKey[Site]()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """A test of processes may take longer than others: how long depends on who else runs."""
    for item in items:
        if HERE in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(180))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Attach what the processes said to a failure."""
    report = yield
    if report.failed and SITE in item.stash:
        report.sections.append(("the site", item.stash[SITE].report()))
    return report
