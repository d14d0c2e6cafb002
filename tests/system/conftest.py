"""A site for each test, and its logs beside every failure."""

from __future__ import annotations

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


SITE = pytest.StashKey[Site]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Attach what the processes said to a failure."""
    report = yield
    if report.failed and SITE in item.stash:
        report.sections.append(("the site", item.stash[SITE].report()))
    return report
