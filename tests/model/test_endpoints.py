"""The models of a worker, as its settings have them: guards, patience, and what each is asked."""

from __future__ import annotations

import pytest

from worker import endpoints
from worker.configuration import load
from worker.core.errors import ConfigError
from worker.guard.guards import Guards
from worker.http import HttpClient, HttpOptions
from worker.model.chain import ModelChain
from worker.model.client import ChatModel
from worker.telemetry.tell import Telemetry

FIRST = {"LOOPWORKER_MODEL_URL": "http://me:pw@a.test:8000/v1", "LOOPWORKER_MODEL": "big"}


async def built(entries="", **env):
    """The models in their order, and the names of their connections."""
    more = {f"LOOPWORKER_{name}": value for name, value in env.items()}
    settings = load({**FIRST, "LOOPWORKER_MODEL_FALLBACKS": entries, **more}).settings
    telemetry, clients = Telemetry(()), []

    def client(name):
        clients.append(name)
        return HttpClient(HttpOptions(), name=name)

    guards = Guards(telemetry, None, endpoints.model_policies(settings))
    model = endpoints.build_model(settings, guards, telemetry, client=client)
    await model.close()
    guards.close()
    return model, clients


async def test_one_endpoint_needs_no_chain():
    """And nobody else could be asked, so a throttling server is waited for."""
    model, clients = await built(MODEL_BACKOFF="20", PARALLEL_TOOL_CALLS="off")

    assert isinstance(model, ChatModel)
    assert model.guard.name == "model:a.test:8000/big"
    assert model.options.patience_seconds > endpoints.PATIENCE_SECONDS
    assert model.options.backoff_seconds_max == 20
    assert model.options.parallel_tool_calls is False
    assert clients == ["model"]
    assert list(endpoints.model_names(model)) == [("openai", "big")]
    assert list(endpoints.fallback_pairs(model)) == []


async def test_who_has_a_later_one_for_throttling_waits_for_nobody():
    """The last one that takes over for it is waited for again."""
    chain, clients = await built("mid, long[context_overflow], last@http://b.test/v1")

    assert isinstance(chain, ModelChain)
    patience = [link.model.options.patience_seconds for link in chain.links]
    assert patience[:3] == [endpoints.PATIENCE_SECONDS] * 3
    assert patience[3] > endpoints.PATIENCE_SECONDS
    assert clients == ["model", "model mid", "model long", "model last"]
    names = [link.model.guard.name for link in chain.links]
    assert names[2:] == ["model:a.test:8000/long", "model:b.test/last"]
    assert list(endpoints.fallback_pairs(chain)) == [("big", n) for n in ("mid", "long", "last")]
    assert [name for _, name in endpoints.model_names(chain)] == ["big", "mid", "long", "last"]


async def test_nobody_is_relieved_by_one_that_takes_no_throttling():
    """A model for long conversations does not help a throttled one."""
    chain, _ = await built("long[context_overflow]")

    assert all(
        link.model.options.patience_seconds > endpoints.PATIENCE_SECONDS for link in chain.links
    )


async def test_a_section_says_how_a_stand_in_is_asked():
    """What it leaves out is as for the first; its breaker bears its own attempts."""
    details = {"ATTEMPTS": "9", "STREAM": "false", "TIMEOUT": "7s"}
    chain, _ = await built(
        "mid",
        MODEL_STREAM="true",
        MODEL_ATTEMPTS="2",
        MODEL_READ_TIMEOUT="33s",
        **{f"FALLBACKS__MID__{name}": value for name, value in details.items()},
    )
    first, second = (link.model for link in chain.links)

    assert (first.options.attempts, first.options.stream) == (2, True)
    assert (second.options.attempts, second.options.stream) == (9, False)
    assert (second.options.timeout_seconds, second.options.read_timeout_seconds) == (7, 33)
    assert (first.guard.policy.fail_max, second.guard.policy.fail_max) == (5, 11)


@pytest.mark.parametrize("url", ["ftp://a/v1", "http://", "http://[::1", "http://a:b/v1", "a/v1"])
@pytest.mark.parametrize("is_first", [True, False], ids=["first", "stand-in"])
def test_what_is_no_url_is_told_at_the_start(url, is_first):
    """With the name of the setting, whatever is wrong with it."""
    other = {"LOOPWORKER_FALLBACKS__M__URL": url, "LOOPWORKER_MODEL_FALLBACKS": "m"}
    env = {"LOOPWORKER_MODEL_URL": url} if is_first else {**FIRST, **other}

    with pytest.raises(ConfigError, match=r"^LOOPWORKER_MODEL_\w+: .*not an http\(s\) URL"):
        load(env)
