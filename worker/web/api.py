"""Submit, look, watch, cancel; and the operator's guards, dead letters and runs.

Every route is a few lines: read the request, ask the desk, the journal or the guards, write JSON.
Errors have one form: `{"error": {"field": …, "message": …}}`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from worker.core.errors import QueueFull, QueueUnavailable, StoreUnavailable, TaskInvalid
from worker.core.wireformat import parse_time
from worker.guard.guards import Guards
from worker.intake import MAX_TASK_BYTES
from worker.queues.port import Queue
from worker.store.port import Journal
from worker.web.below import Below
from worker.web.desk import CANCELLING, FINISHED, QUEUED, Desk
from worker.web.faults import Faults, faulty
from worker.web.gate import Gate
from worker.web.replies import (
    Refusal,
    limit_of,
    media_of,
    read_body,
    read_object,
    refuse,
    reply,
)
from worker.web.sse import EventStream
from worker.web.steps import StepUpdate
from worker.web.stream import Hint, follow, poll
from worker.web.views import guard_to_wire, letter_to_wire, run_to_wire
from worker.web.waitingroutes import WaitingRoutes

WATCHERS_MAX = 128
_OVER: Any = object()
_INVALID_CODES = {"too_large": 413, "invalid_json": 400, "schema": 422}


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiParts:
    """What the API is made of, handed in by the composition root.

    `dependencies` tells the dependency of each tool, whose name its guard has. `hint` waits for
    news of a task in this process. `unhandled` is told what a route raises and should not.
    `closing` ends the streams.
    """

    desk: Desk
    queue: Queue
    journal: Journal
    guards: Guards
    now: Callable[[], float]
    dependencies: Callable[[], Mapping[str, str]] = dict
    token: str | None = None
    hint: Hint = poll
    unhandled: Callable[[Exception], object] = repr
    closing: asyncio.Event = field(default_factory=asyncio.Event)


def build_app(parts: ApiParts) -> ASGIApp:
    """Build the application, its gate included."""
    app = Starlette(routes=routes_of(parts), exception_handlers=_HANDLERS)
    return Gate(Faults(app, unhandled=parts.unhandled), token=parts.token)


def routes_of(parts: ApiParts) -> list[Route]:
    """Every route of the API."""
    api = Api(parts)
    return [
        Route("/v1/tasks", api.submit, methods=["POST"]),
        *WaitingRoutes(parts.desk.waiting).routes(),
        Below("/v1/tasks/{task_id:name}/approvals", api.approvals, methods=["GET"]),
        Below("/v1/tasks/{task_id:name}/events", api.watch, methods=["GET"]),
        Route("/v1/tasks/{task_id:name}", api.look, methods=["GET"]),
        Route("/v1/tasks/{task_id:name}", api.cancel, methods=["DELETE"]),
        Route("/v1/guards", api.guards, methods=["GET"]),
        Route("/v1/guards/{name:name}/{action}", api.force, methods=["POST"]),
        Route("/v1/dead", api.dead, methods=["GET"]),
        Below("/v1/dead/{task_id:name}/redrive", api.redrive, methods=["POST"]),
        Route("/v1/runs", api.runs, methods=["GET"]),
    ]


class Api:
    """The routes."""

    def __init__(self, parts: ApiParts) -> None:
        self._parts = parts
        self._desk = parts.desk
        self._watchers = 0

    async def submit(self, request: Request) -> Response:
        """POST /v1/tasks: 202 for a new task; 200 and `duplicate` for a known id, whatever is new in it."""
        media = media_of(request)
        body = await read_body(request, limit=MAX_TASK_BYTES)
        submitted = await self._desk.submit(
            body,
            content_type=media,
            traceparent=request.headers.get("traceparent"),
            tracestate=request.headers.get("tracestate"),
        )
        return reply(
            await self._desk.receipt(submitted),
            code=202 if submitted.created else 200,
            headers={"Location": f"/v1/tasks/{quote(submitted.task.id, safe='')}"},
        )

    async def look(self, request: Request) -> Response:
        """GET /v1/tasks/{id}: where it is, and its result."""
        task_id = request.path_params["task_id"]
        view = await self._desk.look(task_id, with_steps=True)
        return reply(view.to_wire()) if view else _no_task(task_id)

    async def approvals(self, request: Request) -> Response:
        """GET /v1/tasks/{id}/approvals: the calls of this task that wait for a person."""
        task_id = request.path_params["task_id"]
        view = await self._desk.look(task_id)
        if view is None:
            return _no_task(task_id)
        calls = [each for each in view.waiting if each["kind"] == "approval"]
        return reply({"approvals": [{"task": task_id, **each} for each in calls]})

    async def cancel(self, request: Request) -> Response:
        """DELETE /v1/tasks/{id}: 200 when it is over, 202 when its worker will see it soon."""
        task_id = request.path_params["task_id"]
        view = await self._desk.cancel(task_id)
        if view is None:
            return _no_task(task_id)
        view = await self._desk.look(task_id, with_steps=True) or view
        return reply(view.to_wire(), code=202 if view.status == CANCELLING else 200)

    async def watch(self, request: Request) -> ASGIApp | Response:
        """GET /v1/tasks/{id}/events: server-sent events; 204 when all of them are known."""
        task_id = request.path_params["task_id"]
        view = await self._desk.look(task_id)
        if view is None:
            return _no_task(task_id)
        if self._watchers >= WATCHERS_MAX:
            raise Refusal(503, f"{WATCHERS_MAX} watchers are here already; come back later.")
        after = last_event_id(request)
        updates = follow(self._parts.journal, task_id, after_seq=after, hint=self._parts.hint)
        if view.status == FINISHED and view.result is not None:
            first = await anext(updates, _OVER)
            if first is _OVER:
                return Response(status_code=204)  # tells a browser to stop coming back
            updates = _with_first(first, updates)
        return self._counted(EventStream(updates, self._parts.closing))

    def _counted(self, stream: ASGIApp) -> ASGIApp:
        async def counted(*arguments: Any) -> None:
            self._watchers += 1
            try:
                await stream(*arguments)
            finally:
                self._watchers -= 1

        return counted

    async def guards(self, request: Request) -> Response:
        """GET /v1/guards: every guard with the state of its breaker, and the tools behind it."""
        tools = self._parts.dependencies()
        guards = [guard_to_wire(guard, tools) for guard in self._parts.guards.all()]
        return reply({"guards": guards})

    async def force(self, request: Request) -> Response:
        """POST /v1/guards/{name}/open|close|release: an operator's override: who, why, until.

        The name is that of a dependency, or of a tool that has one.
        """
        action, name = request.path_params["action"], request.path_params["name"]
        tools, given = self._parts.dependencies(), await read_object(request)
        guard = self._parts.guards.find(name) or self._parts.guards.find(tools.get(name, ""))
        if guard is None:
            raise Refusal(404, f"There is no guard named {name[:100]!r}.", field="name")
        _only(given, ("who", "why") if action == "release" else ("who", "why", "until"))
        until = parse_time(given.get("until"), field="until")
        if until is not None and until <= self._parts.now():
            raise Refusal(422, "until: is in the past", field="until")
        who, why = _line(given, "who"), _line(given, "why")
        match action:
            case "open":
                guard.force_open(who=who, why=why, until=until)
            case "close":
                guard.force_closed(who=who, why=why, until=until)
            case "release":
                guard.release(who=who, why=why)
            case _:
                raise Refusal(404, "A guard can be told to open, close or release.")
        return reply(guard_to_wire(guard, tools))

    async def dead(self, request: Request) -> Response:
        """GET /v1/dead: dead letters, the newest first."""
        letters = await self._parts.queue.dead(limit=limit_of(request))
        return reply({"dead": [letter_to_wire(letter) for letter in letters]})

    async def redrive(self, request: Request) -> Response:
        """POST /v1/dead/{id}/redrive: back into the queue with a fresh count."""
        task_id = request.path_params["task_id"]
        if not await self._desk.redrive(task_id):
            raise Refusal(404, "There is no dead letter of that id.", field="id")
        return reply({"id": task_id, "status": QUEUED}, code=202)

    async def runs(self, request: Request) -> Response:
        """GET /v1/runs: the runs that changed last."""
        runs = await self._parts.journal.recent(limit=limit_of(request))
        return reply({"runs": [run_to_wire(run) for run in runs]})


def last_event_id(request: Request) -> int:
    """Read where a watcher stopped: the header, or `?after=` for clients that cannot set it."""
    text = request.headers.get("last-event-id") or request.query_params.get("after", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else -1


def _only(given: Mapping[str, Any], known: tuple[str, ...]) -> None:
    # A misspelt `until` that is passed over would hold a breaker for ever.
    for name, value in given.items():
        if name not in known and value is not None:
            allowed = ", ".join(known)
            raise Refusal(422, f"{name[:40]}: not known; allowed are {allowed}", field=name[:40])


def _line(given: Mapping[str, Any], name: str) -> str:
    value = given.get(name)
    if not isinstance(value, str) or not value.strip() or len(value) > 500:
        raise Refusal(422, f"{name}: must be text of at most 500 characters", field=name)
    return value.strip()


async def _with_first(
    first: StepUpdate | None, rest: AsyncIterator[StepUpdate | None]
) -> AsyncIterator[StepUpdate | None]:
    yield first
    async for update in rest:
        yield update


def _no_task(task_id: str) -> Response:
    return refuse(404, f"there is no task {task_id[:200]!r}", field="id")


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, TaskInvalid)
    code = _INVALID_CODES.get(error.kind, 422)
    # Whoever sends too much must not go on sending: uvicorn would read it all to keep alive.
    headers = {"Connection": "close"} if code == 413 else None
    return refuse(code, str(error), field=error.field, headers=headers)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return refuse(error.code, str(error), field=error.field)


async def _full(request: Request, error: Exception) -> Response:
    return refuse(429, str(error), headers={"Retry-After": "5"})


async def _unavailable(request: Request, error: Exception) -> Response:
    return refuse(503, str(error), headers={"Retry-After": "2"})


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    said, headers = error.detail, error.headers or {}
    if error.status_code == 404:
        said = f"There is nothing at {request.url.path[:100]!r}; tasks are at /v1/tasks."
    elif error.status_code == 405:
        said = f"{request.method[:20]} is not for this address; it takes {headers.get('Allow')}."
    return refuse(error.status_code, said, headers=error.headers)


_HANDLERS: dict[Any, Callable[[Request, Exception], Awaitable[Response]]] = {
    TaskInvalid: _invalid,
    Refusal: _refused,
    QueueFull: _full,
    QueueUnavailable: _unavailable,
    StoreUnavailable: _unavailable,
    HTTPException: _http,
    Exception: faulty,
}
