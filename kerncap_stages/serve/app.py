"""The HTTP interface of the service: four paths, JSON in and out, a token in each request."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.routing import Route

from kerncap_stages import __version__
from kerncap_stages.errors import ArtifactError, DeviceError, KerncapError, Refused, UsageError
from kerncap_stages.serve.posted import check_timeout, read_asked, read_posted
from kerncap_stages.serve.tasks import TooManyTasks

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from starlette.requests import Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from kerncap_stages.serve.subjects import Subjects
    from kerncap_stages.serve.tasks import Task, Tasks

MAX_REQUESTS = 400  # at the same time, also those that wait for a task
_LOOK_S = 0.5  # how often a waiting request looks whether its client is still there
_MAX_DRAINED_BYTES = 16 << 20  # of a body that comes without the token
_DRAIN_S = 5.0
_STATUS = {UsageError: 400, ArtifactError: 404, TooManyTasks: 429, Refused: 409, DeviceError: 503}


def make_app(
    subjects: Subjects,
    tasks: Tasks,
    token: str,
    max_body_bytes: int,
    is_ending: Callable[[], bool],
    log: Callable[[str], None],
) -> ASGIApp:
    """Make the application.

    token: each request has it as ``Authorization: Bearer TOKEN``. is_ending: tells whether the service is
    about to end; clients that wait are then answered with what is known. log: takes a line for each request.
    """
    service = _Service(subjects, tasks, max_body_bytes, is_ending)
    app = Starlette(
        routes=[
            Route("/evaluate", service.evaluate, methods=["POST"]),
            Route("/tasks/batch", service.look_at_several, methods=["POST"]),
            Route("/tasks/{id}", service.look_at_one, methods=["GET"]),
            Route("/health", service.tell_health, methods=["GET"]),
        ],
        exception_handlers={
            HTTPException: _answer_http_error,
            KerncapError: _answer_error,
            ClientDisconnect: _answer_nobody,
        },
    )
    return _TokenOnly(app, token, log)


class _TokenOnly:
    """Lets only requests with the token through, and not too many at once. Of others nothing is kept."""

    def __init__(self, app: ASGIApp, token: str, log: Callable[[str], None]) -> None:
        self._app = app
        self._wanted = f"Bearer {token}".encode()
        self._log = log
        self._running = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = "no answer"

        async def watch(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = str(message["status"])
            await send(message)

        try:
            await self._answer(scope, receive, watch)
        finally:
            client = scope.get("client") or ("?",)
            self._log(f"{client[0]} {scope['method']} {scope['path']} {status}")

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        # In constant time: how long it takes must not say how much of it is right.
        if len(given) != 1 or not secrets.compare_digest(given[0], self._wanted):
            await _drain(scope, receive)
            response = _make_error(401, "the token is missing or wrong: Authorization: Bearer TOKEN")
            response.headers["WWW-Authenticate"] = "Bearer"
            response.headers["Connection"] = "close"
            await response(scope, receive, send)
            return
        if self._running >= MAX_REQUESTS:
            response = _make_error(503, f"{self._running} requests are under way", "send it again later")
            response.headers["Connection"] = "close"
            await response(scope, receive, send)
            return
        self._running += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._running -= 1


async def _drain(scope: Scope, receive: Receive) -> None:
    """Drop a body, up to a size and a time: a client that still sends when we close sees no answer."""
    if any(name == b"expect" for name, _ in scope["headers"]):
        return  # it waits for the answer before it sends
    left = _MAX_DRAINED_BYTES
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_DRAIN_S):
            while left > 0:
                message = await receive()
                left -= len(message.get("body", b""))
                if not message.get("more_body"):
                    return


class _Service:
    def __init__(
        self, subjects: Subjects, tasks: Tasks, max_body_bytes: int, is_ending: Callable[[], bool]
    ) -> None:
        self._subjects = subjects
        self._tasks = tasks
        self._max_body_bytes = max_body_bytes
        self._is_ending = is_ending

    async def evaluate(self, request: Request) -> JSONResponse:
        """Take variants; answer with their tasks at once."""
        # In threads: a body may be large, and other clients are not to wait for it.
        posted = await asyncio.to_thread(read_posted, await self._read(request))
        name, subject = await asyncio.to_thread(self._subjects.find, posted)
        tasks = await asyncio.to_thread(self._tasks.add, name, subject, posted.variants)
        # A known task has the name under which it was posted first. This client knows its own.
        told = zip(tasks, posted.variants, strict=True)
        return JSONResponse({"tasks": [{**task.describe(), "name": own.name} for task, own in told]}, 202)

    async def look_at_one(self, request: Request) -> JSONResponse:
        """Answer with a task, once it is done or the time is up."""
        timeout_s = _read_timeout(request.query_params.get("timeout", "0"))
        task = self._find(request.path_params["id"])
        await self._wait(request, [task], timeout_s)
        return JSONResponse(task.describe())

    async def look_at_several(self, request: Request) -> JSONResponse:
        """Answer with tasks, once all of them are done or the time is up."""
        asked = await asyncio.to_thread(read_asked, await self._read(request))
        tasks = [self._find(each) for each in asked.ids]
        await self._wait(request, tasks, asked.timeout_s)
        return JSONResponse({"tasks": [each.describe() for each in tasks]})

    async def tell_health(self, _request: Request) -> JSONResponse:
        """Answer with what the service is, and what it has to do."""
        return JSONResponse(
            {
                "status": "ok",
                "version": __version__,
                "waiting": self._tasks.waiting,
                "projects": self._subjects.list_projects(),
            }
        )

    async def _wait(self, request: Request, wanted: Sequence[Task], timeout_s: float) -> None:
        """Wait until tasks are done, the time is up, the client has gone, or the service ends.

        The tasks of a client that has gone go on.
        """
        loop = asyncio.get_running_loop()
        end_at = loop.time() + timeout_s
        for task in wanted:
            if loop.time() >= end_at:
                return
            done = asyncio.Event()

            def tell(done: asyncio.Event = done) -> None:
                with contextlib.suppress(RuntimeError):  # the loop has ended, and nobody waits any more
                    loop.call_soon_threadsafe(done.set)

            self._tasks.call_when_done(task, tell)
            try:
                while not done.is_set():
                    rest = end_at - loop.time()
                    if rest <= 0 or self._is_ending() or await request.is_disconnected():
                        return
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(done.wait(), min(rest, _LOOK_S))
            finally:
                self._tasks.forget(task, tell)

    def _find(self, identity: str) -> Task:
        task = self._tasks.find(identity)
        if task is None:
            raise ArtifactError(
                "no such task",
                hint="post the variant again: what was judged is in the store, and is not judged again",
            )
        return task

    async def _read(self, request: Request) -> bytes:
        """Read the body. A larger one than allowed is not read to its end."""
        limit = self._max_body_bytes
        body = bytearray()
        told = request.headers.get("content-length", "0")
        if not (told.isdecimal() and int(told) > limit):
            async for part in request.stream():
                body += part
                if len(body) > limit:
                    break
            else:
                return bytes(body)
        raise HTTPException(413, f"the body is larger than {limit:,} bytes", {"Connection": "close"})


def _read_timeout(text: str) -> float:
    try:
        return check_timeout(float(text))
    except ValueError:
        raise UsageError("timeout must be a number") from None


def _make_error(status: int, message: str, hint: str | None = None) -> JSONResponse:
    error: dict[str, Any] = {"status": status, "message": message}
    if hint is not None:
        error["hint"] = hint
    return JSONResponse({"error": error}, status)


async def _answer_http_error(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    response = _make_error(error.status_code, error.detail)
    response.headers.update(error.headers or {})
    return response


async def _answer_error(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, KerncapError)
    found = (status for kind, status in _STATUS.items() if isinstance(error, kind))
    return _make_error(next(found, 500), str(error), error.hint)


async def _answer_nobody(_request: Request, _error: Exception) -> JSONResponse:
    """The client went away before its body was complete; this goes nowhere, and there is nothing to log."""
    return _make_error(400, "the body is not complete")
