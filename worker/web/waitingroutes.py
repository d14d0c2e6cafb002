"""Approve, deny, hand in the result of a job: the routes of what runs wait for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from worker.core.waiting import is_handle
from worker.web.below import Below
from worker.web.replies import Refusal, limit_of, media_of, read_body, read_object, reply
from worker.web.waiting import (
    MAX_REPORT_BYTES,
    WHO_CHARS_MAX,
    WHY_CHARS_MAX,
    Decision,
    NotAccepted,
    WaitingDesk,
)


class WaitingRoutes:
    """The routes, on one desk."""

    def __init__(self, desk: WaitingDesk) -> None:
        self._desk = desk

    def routes(self) -> list[Route]:
        """What to add to the application, before the routes of tasks."""
        return [
            Route("/v1/approvals", self.approvals, methods=["GET"]),
            Below("/v1/tasks/{task_id:name}/approvals", self.decide, methods=["POST"]),
            Route("/v1/jobs/{handle:name}", self.report, methods=["POST"]),
        ]

    async def approvals(self, request: Request) -> Response:
        """GET /v1/approvals: every call that waits for a person."""
        return reply({"approvals": await self._desk.approvals(limit=limit_of(request))})

    async def decide(self, request: Request) -> Response:
        """POST /v1/tasks/{id}/approvals: approve or deny one call, by the digest of its arguments."""
        given = await read_object(request)
        _all_there(given)
        approved = given.get("approved")
        if not isinstance(approved, bool):
            raise Refusal(422, "approved: must be true or false", field="approved")
        decision = Decision(
            approved=approved,
            by=_text(given, "by", most=WHO_CHARS_MAX),
            why=_text(given, "why", most=WHY_CHARS_MAX, needed=False),
            call_id=_text(given, "call", most=500, needed=False) or None,
            digest=_text(given, "digest", most=200),
        )
        try:
            return reply(await self._desk.decide(request.path_params["task_id"], decision))
        except NotAccepted as refused:
            raise Refusal(refused.code, str(refused)) from None

    async def report(self, request: Request) -> Response:
        """POST /v1/jobs/{handle}: 202 for a new result, 200 for the same once more, 409 for another."""
        media = media_of(request)
        handle = request.path_params["handle"]
        if not is_handle(handle):
            raise Refusal(404, "There can be no job of that handle.", field="handle")
        body = await read_body(request, limit=MAX_REPORT_BYTES)
        try:
            reported = await self._desk.report(handle, body, content_type=media)
        except NotAccepted as refused:
            raise Refusal(refused.code, str(refused), field="handle") from None
        known = {"expected": reported.is_expected}
        return reply({"handle": handle, **known}, code=202 if reported.is_new else 200)


def _all_there(given: Mapping[str, Any]) -> None:
    missing = [name for name in ("approved", "by", "digest") if given.get(name) is None]
    if missing:
        known = '"call" and "digest" stand in GET /v1/approvals'
        needed = f'needed are "approved" (true or false), "by" and "digest"; {known}'
        raise Refusal(422, f"{', '.join(missing)}: missing; {needed}", field=missing[0])


def _text(given: Mapping[str, Any], name: str, *, most: int, needed: bool = True) -> str:
    value = given.get(name)
    if value is None and not needed:
        return ""
    if not isinstance(value, str) or len(value) > most or (needed and not value.strip()):
        raise Refusal(422, f"{name}: must be text of at most {most} characters", field=name)
    return value.strip()
