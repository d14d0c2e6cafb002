"""Build the model of a worker: one endpoint, or a chain of them, each behind its own guard."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from worker.core.causes import RATE_LIMIT
from worker.core.errors import ConfigError
from worker.fallbacksettings import FallbackModel, check_url
from worker.guard.guards import Guards
from worker.guard.policy import GuardPolicy
from worker.http import HttpClient
from worker.model.chain import FIRST, Link, ModelChain
from worker.model.client import ChatModel, Endpoint, ModelOptions, model_guard_policy
from worker.model.port import Model
from worker.settings import Settings
from worker.telemetry.tell import Telemetry

_PARALLEL = {"auto": None, "on": True, "off": False}
# How long a throttling server is waited for while another model could be asked instead: less than
# a person notices, and enough for servers that count by the second.
PATIENCE_SECONDS = 5.0

Clients = Callable[[str], HttpClient]


def _guard_name(url: str, model: str) -> str:
    host = urlsplit(url).netloc.rpartition("@")[2] or "model"
    return f"model:{host}/{model}"


def model_policies(settings: Settings) -> dict[str, GuardPolicy]:
    """The guard of each model, by its name."""
    policy = model_guard_policy(concurrency=settings.concurrency, attempts=settings.model_attempts)
    policies = {_guard_name(settings.model_url or "", settings.model or "default"): policy}
    for each in settings.stand_ins():
        attempts = each.details.attempts or settings.model_attempts
        policy = model_guard_policy(concurrency=settings.concurrency, attempts=attempts)
        policies[_guard_name(each.url, each.model)] = policy
    return policies


def build_model(
    settings: Settings, guards: Guards, telemetry: Telemetry, *, client: Clients
) -> Model:
    """The model client, or a chain of them. `client` makes the connections of one, by its name.

    Raises ConfigError when no endpoint is configured.
    """
    first, asked = model_endpoint(settings), settings.stand_ins()

    def guarded(
        endpoint: Endpoint, options: ModelOptions, later: Iterable[FallbackModel], name: str
    ) -> ChatModel:
        if any(RATE_LIMIT in each.causes for each in later):
            options = replace(options, patience_seconds=PATIENCE_SECONDS)
        guard = guards.get(_guard_name(endpoint.base_url, endpoint.model))
        return ChatModel(
            endpoint, http=client(name), guard=guard, telemetry=telemetry, options=options
        )

    model = guarded(first, model_options(settings), asked, "model")
    if not asked:
        return model
    links = [Link(first.model, model, FIRST)]
    for at, each in enumerate(asked, 1):
        options = fallback_options(settings, each)
        model = guarded(fallback_endpoint(each), options, asked[at:], f"model {each.name}")
        links.append(Link(each.name, model, each.causes))
    return ModelChain(links, telemetry=telemetry)


def model_names(model: Model) -> Iterator[tuple[str, str]]:
    """Provider and name of each model behind the port, for the metrics."""
    models = [link.model for link in model.links] if isinstance(model, ModelChain) else [model]
    for each in models:
        endpoint = getattr(each, "endpoint", None)
        yield getattr(endpoint, "provider", "other"), each.name


def fallback_pairs(model: Model) -> Iterator[tuple[str, str]]:
    """The first model and each that stands in for it, as signals call them."""
    links = model.links if isinstance(model, ModelChain) else ()
    for link in links[1:]:
        yield model.name, link.name


def model_endpoint(settings: Settings) -> Endpoint:
    """Where the first model is, and its key. Raises ConfigError when nothing says so."""
    if not settings.model_url:
        raise ConfigError(
            "LOOPWORKER_MODEL_URL: not set; give the base URL of an OpenAI-compatible server"
            " (https://api.openai.com/v1, http://127.0.0.1:11434/v1, …), or try the offline"
            " stand-in: python -m worker.model.offline --port 8091, then"
            " LOOPWORKER_MODEL_URL=http://127.0.0.1:8091/v1"
        )
    check_url(settings.model_url, what="LOOPWORKER_MODEL_URL")
    key = settings.api_key.get_secret_value() if settings.api_key else None
    return Endpoint(base_url=settings.model_url, model=settings.model or "default", api_key=key)


def fallback_endpoint(each: FallbackModel) -> Endpoint:
    """Where a stand-in is, and its key."""
    return Endpoint(base_url=each.url, model=each.model, api_key=each.api_key)


def model_options(settings: Settings) -> ModelOptions:
    """How the first model is asked."""
    return ModelOptions(
        attempts=settings.model_attempts,
        backoff_seconds=settings.model_backoff,
        backoff_seconds_max=max(8.0, settings.model_backoff),
        max_argument_bytes=settings.max_argument_bytes,
        max_output_tokens=settings.max_output_tokens,
        prices=settings.price_list(),
        parallel_tool_calls=_PARALLEL[settings.parallel_tool_calls],
        read_timeout_seconds=settings.model_read_timeout,
        stream=settings.model_stream,
        timeout_seconds=settings.model_timeout,
    )


def fallback_options(settings: Settings, each: FallbackModel) -> ModelOptions:
    """How a stand-in is asked: as the first model, but for what its section says."""
    details = each.details
    said = {
        "attempts": details.attempts,
        "max_output_tokens": details.max_output_tokens,
        "read_timeout_seconds": details.read_timeout,
        "stream": details.stream,
        "timeout_seconds": details.timeout,
    }
    told: dict[str, Any] = {name: value for name, value in said.items() if value is not None}
    return replace(model_options(settings), **told)
