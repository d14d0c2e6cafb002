"""Ask the running worker over HTTP, with the standard library alone: quick to import, no proxies."""

from __future__ import annotations

import getpass
import http.client
import json
import re
import sys
from typing import Any
from urllib.parse import quote

from worker.cli.exits import NOT_ANSWERED, UNREACHABLE, USAGE, CommandFailed

SECONDS = 10.0
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}


class NobodyAnswers(CommandFailed):
    """No worker listens there, or none at all by its settings."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code=UNREACHABLE)


def split_address(address: str, *, setting: str) -> tuple[str, int]:
    """Read host:port; an address that means all interfaces is asked on loopback."""
    from worker.checks import listening_address

    found = listening_address(address, setting=setting)
    if found is None:
        raise NobodyAnswers(f"{setting} is off: this worker does not listen there")
    return _EVERYWHERE.get(found[0], found[0]), found[1]


def fetch(address: tuple[str, int], path: str) -> tuple[int, str]:
    """GET a page of the admin listener. Raises OSError or HTTPException."""
    connection = http.client.HTTPConnection(*address, timeout=SECONDS)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode("utf-8", "replace")
    finally:
        connection.close()


class Remote:
    """The API of the running worker."""

    def __init__(self, address: str, *, token: str | None) -> None:
        self._address = split_address(address, setting="LOOPWORKER_HTTP")
        self._headers = {"Content-Type": "application/json"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Call a route and return its JSON. Raises CommandFailed with the worker's own words."""
        where = f"http://{self._address[0]}:{self._address[1]}"
        connection = http.client.HTTPConnection(*self._address, timeout=SECONDS)
        try:
            content = None if body is None else json.dumps(body).encode()
            connection.request(method, path, body=content, headers=self._headers)
            answer = connection.getresponse()
            raw = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise NobodyAnswers(
                f"no worker answers at {where} ({error}); start one with `loopworker run`, or set"
                " LOOPWORKER_HTTP to where it listens"
            ) from error
        finally:
            connection.close()
        return self._read(answer.status, raw, where)

    def _read(self, status: int, raw: bytes, where: str) -> Any:
        try:
            value = json.loads(raw)
        except ValueError:
            raise CommandFailed(
                f"{where} is not a loopworker: it answered {status} without JSON", code=UNREACHABLE
            ) from None
        if status < 400:
            return value
        problem = value.get("error") if isinstance(value, dict) else None
        message = problem.get("message", "") if isinstance(problem, dict) else str(value)[:200]
        if status in (401, 403):
            raise CommandFailed(f"{where} refused: {message}", code=UNREACHABLE)
        if status >= 500:
            raise CommandFailed(f"{where} cannot: {message}", code=UNREACHABLE)
        # Not there, not as it was thought to be, or no longer: nothing is wrong with the words.
        is_well_put = status in (404, 409, 410)
        raise CommandFailed(message, code=NOT_ANSWERED if is_well_put else USAGE)


def the_worker() -> Remote:
    """The worker that the settings point to."""
    from worker.configuration import load

    settings = load().settings
    token = settings.http_token.get_secret_value() if settings.http_token else None
    return Remote(settings.http, token=token)


def myself() -> str:
    """Name the person who types."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user often has no name
        return "an operator on " + sys.platform


def no_answer(url: str, error: str) -> str:
    """Say of an error that is about the connection to the model what a person can do about it."""
    from worker.model.chain import AND_THEN

    if AND_THEN in error:
        return error  # of several models: it names each with what was wrong
    if not any(word in error for word in ("ConnectError", "Connect call failed", "refused")):
        return error
    from worker.configuration import masked

    if "WRONG_VERSION_NUMBER" in error:
        plain = masked(url).replace("https://", "http://", 1)
        return f"{masked(url)} speaks no TLS; is {plain} meant? (LOOPWORKER_MODEL_URL)"
    refused = "Connect call failed" in error or "refused" in error
    # The library's own sentence has the reason in brackets, behind a host that is named already.
    why = re.sub(r"^Cannot connect to host .*? \[(.*)\]$", r"\1", error.rpartition("Error: ")[2])
    why = "connection refused" if refused else why
    return f"{masked(url)} does not answer ({why}); is the server running? (LOOPWORKER_MODEL_URL)"


def segment(text: str) -> str:
    """Write an id or a name as one segment of a path."""
    return quote(text, safe="")
