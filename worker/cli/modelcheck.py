"""Ask every model endpoint whether it is there, and which dialect it speaks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from worker.cli.exits import ANSWERED, UNREACHABLE, USAGE
from worker.cli.finding import CHECK_SECONDS, Finding, checked

if TYPE_CHECKING:
    from worker.http import HttpOptions
    from worker.model.client import Endpoint, ModelOptions
    from worker.settings import Settings


@dataclass(frozen=True, slots=True)
class Target:
    """One model of the chain. `name` is empty for the first, `is_named` False if nobody named it."""

    endpoint: Endpoint
    options: ModelOptions
    name: str = ""
    is_named: bool = True

    def finding(self, found: Finding) -> Finding:
        """Say which model a finding is about, and name its own settings."""
        if not self.name:
            return found
        from worker.fallbacksettings import slug

        text = found.text
        own = f"LOOPWORKER_FALLBACKS__{slug(self.name).upper()}__"
        for setting, name in (("MODEL_URL", "URL"), ("MODEL_STREAM", "STREAM"),
                              ("API_KEY", "API_KEY"), ("MODEL", "MODEL")):  # fmt: skip
            text = text.replace(f"LOOPWORKER_{setting}", f"{own}{name}")
        return replace(found, text=f"{self.name}: {text}")


async def check_models(settings: Settings, *, probe: bool) -> list[Finding]:
    """Look at each model in the order of the chain; `probe` also asks it for a tool call."""
    from worker.core.errors import ConfigError

    try:
        targets = list(_targets(settings))
    except ConfigError as error:
        return [Finding("model", str(error), USAGE)]
    findings: list[Finding] = []
    for target in targets:
        found = [await checked("model", _reached(settings, target))]
        if probe and not found[0].code:  # of a model that is out of reach, one line is enough
            found += await _dialect(settings, target)
        findings += map(target.finding, found)
    return findings


def _targets(settings: Settings) -> Iterator[Target]:
    from worker import endpoints
    from worker.core.errors import ConfigError

    if not settings.model_url:
        raise ConfigError("LOOPWORKER_MODEL_URL is not set; see `loopworker ask --help`")
    first = endpoints.model_endpoint(settings)
    yield Target(first, endpoints.model_options(settings), is_named=settings.model is not None)
    for each in settings.stand_ins():
        options = endpoints.fallback_options(settings, each)
        yield Target(endpoints.fallback_endpoint(each), options, each.name)


async def _dialect(settings: Settings, target: Target) -> list[Finding]:
    """Ask the model for a real tool call; the first finding sums up."""
    from worker.model.probe import Standing, probe

    report = await probe(target.endpoint, http=_http_options(settings), options=target.options)
    codes = {Standing.UNREACHABLE: UNREACHABLE, Standing.UNUSABLE: USAGE}
    requests = f"{report.requests} request{'s' * (report.requests != 1)}"
    text = f"{report.standing}, by {requests} in {report.seconds:.1f} s"
    findings = [Finding("dialect", text, codes.get(report.standing, ANSWERED))]
    for trait in report.traits:
        does = f" → {trait.does}" if trait.does else ""
        findings.append(Finding("dialect", f"{trait.topic}: {trait.seen}{does}", trait=trait))
    return findings


async def _reached(settings: Settings, target: Target) -> Finding:
    from worker.cli.remote import no_answer
    from worker.configuration import masked
    from worker.core.errors import AttemptFailed
    from worker.http import Bounds, HttpClient

    base, key = target.endpoint.base_url, target.endpoint.api_key
    client = HttpClient(_http_options(settings), name="doctor")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        bounds = Bounds(total_seconds=CHECK_SECONDS, body_bytes_max=4_194_304)
        url = f"{base.rstrip('/')}/models"
        answer = await client.request("GET", url, headers=headers, bounds=bounds)
    except AttemptFailed as error:
        return Finding("model", no_answer(base, str(error)), UNREACHABLE)
    finally:
        await client.aclose()
    where, name = masked(base), target.endpoint.model
    if answer.status in (401, 403):
        text = f"{where} refuses the key ({answer.status}); set LOOPWORKER_API_KEY"
        return Finding("model", text, USAGE)
    if answer.status >= 500:
        return Finding("model", f"{where} answers {answer.status}", UNREACHABLE)
    # Many servers have no list of models; that they answer at all is what counts here.
    listed = name.encode() in answer.body if answer.status == 200 else None
    hint = "" if listed is not False else f"; it does not list {name!r} (LOOPWORKER_MODEL)"
    if not target.is_named and listed is False:
        offers = ", ".join(_model_names(answer.body)) or "none"
        hint = f"; LOOPWORKER_MODEL is not set; this server offers: {offers}"
    return Finding("model", f"{where} answers{hint}")


def _model_names(body: bytes) -> list[str]:
    """Read a list of models, the first ten; empty when it has another form."""
    try:
        listed = json.loads(body).get("data") or ()
        return [str(each["id"]) for each in listed][:10]
    except (ValueError, AttributeError, KeyError, TypeError):
        return []


def _http_options(settings: Settings) -> HttpOptions:
    from worker.http import HttpOptions

    outbound = settings.outbound
    return HttpOptions(transport=outbound.transport, trust_env=outbound.proxies_from_environment)
