"""What nobody foresaw in a route costs one request: an answer in our form, and a line that tells."""

from __future__ import annotations

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from worker.web.replies import refuse


class Faults:
    """An ASGI layer that tells of an exception instead of letting the server print a traceback."""

    def __init__(self, app: ASGIApp, *, unhandled: Callable[[Exception], object]) -> None:
        self._app = app
        self._unhandled = unhandled

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on. What is raised has been answered (`faulty`), or its stream breaks off here."""
        try:
            await self._app(scope, receive, send)
        except Exception as error:  # the border of a request: the others go on
            self._unhandled(error)


async def faulty(request: Request, error: Exception) -> Response:
    """Answer with 500; what was raised is for the log alone."""
    return refuse(
        500, "The worker could not do this; its log says why (error.unhandled, component http)."
    )
