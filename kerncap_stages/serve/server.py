"""Runs the service: the socket, the token, and the end."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import os
import secrets
import socket
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

import uvicorn

from kerncap_stages.errors import DeviceError, UsageError
from kerncap_stages.serve.app import make_app
from kerncap_stages.serve.connections import BoundedProtocol
from kerncap_stages.serve.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from starlette.types import ASGIApp

    from kerncap_stages.digest import Digest
    from kerncap_stages.evaluate.session import EvaluateSettings
    from kerncap_stages.evaluate.subject import Subject
    from kerncap_stages.serve.subjects import Subjects

TOKEN_VARIABLE = "KERNCAP_SERVE_TOKEN"  # noqa: S105 - its name
_GRACE_S = 2  # how long connections may stay open when a signal ends the service
_MIN_TOKEN = 16
_MAX_TOKEN = 1000
_IDLE_CONNECTION_S = 75  # behind an answer


@dataclass(frozen=True)
class Token:
    """The token. ``is_new``: it was made now, and the user has to be told.

    readable: other users of the machine may read the file that it came from.
    """

    text: str
    is_new: bool
    readable: bool = False


def choose_token(path: Path | None) -> Token:
    """Read the token from a file, else from the environment; else make one.

    Removes it from the environment, which make, compilers and replays inherit.
    Raises UsageError if it is too short, or cannot be sent in a header.
    """
    given, where = os.environ.pop(TOKEN_VARIABLE, None), TOKEN_VARIABLE
    readable = False
    if path is not None:
        where = str(path)
        try:
            given = path.read_text()
            readable = bool(path.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH))
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise UsageError(
                f"--token-file {path}: {why}", hint="a file with the token in one line"
            ) from error
    if given is None:
        return Token(secrets.token_urlsafe(32), is_new=True)
    given = given.strip()
    if not _MIN_TOKEN <= len(given) <= _MAX_TOKEN or not (
        given.isascii() and given.isprintable() and " " not in given
    ):
        raise UsageError(
            f"the token in {where} must have {_MIN_TOKEN} to {_MAX_TOKEN} printable ASCII characters",
            hint="for example: openssl rand -hex 32",
        )
    return Token(given, is_new=False, readable=readable)


def listen(host: str, port: int) -> socket.socket:
    """Open the socket. Raises UsageError if ``host`` is not an address, DeviceError if the port is in use."""
    try:
        address = ipaddress.ip_address("127.0.0.1" if host == "localhost" else host.strip("[]"))
    except ValueError:
        raise UsageError(
            f"--host {host} is not an IP address", hint="127.0.0.1, ::1, or 0.0.0.0 for all"
        ) from None
    listener = socket.socket(socket.AF_INET6 if address.version == 6 else socket.AF_INET)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((str(address), port))
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise DeviceError(
            f"cannot listen on {host}, port {port}: {error.strerror}",
            hint="another --port; 0 takes a free one",
        ) from error
    return listener


def is_loopback(listener: socket.socket) -> bool:
    """Whether only this machine can reach the socket."""
    return ipaddress.ip_address(listener.getsockname()[0]).is_loopback


def describe(listener: socket.socket, token: Token) -> str:
    """Return a line of JSON: the address, and the token if it is new."""
    host, port = listener.getsockname()[:2]
    told = {"url": f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"}
    if token.is_new:
        told["token"] = token.text
    return json.dumps(told)


def serve(
    listener: socket.socket,
    token: Token,
    subjects: Subjects,
    settings: EvaluateSettings,
    max_body_bytes: int,
    published: Callable[[Subject, Digest], None],
    log: Callable[[str], None],
) -> None:
    """Serve until a signal comes. What was judged by then is published.

    log: takes a line for each request, and for each task that is over; called in any thread.
    """
    tasks = Tasks(settings, published, log)
    try:
        app = make_app(subjects, tasks, token.text, max_body_bytes, lambda: server.should_exit, log)
        server = make_server(app)
        asyncio.run(server.serve([listener]))
    finally:
        tasks.stop()
        listener.close()


def make_server(app: ASGIApp) -> uvicorn.Server:
    """Make the server of an application."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            http=BoundedProtocol,
            log_level="error",  # what clients do wrong is for them
            access_log=False,
            lifespan="off",
            server_header=False,
            timeout_graceful_shutdown=_GRACE_S,
            timeout_keep_alive=_IDLE_CONNECTION_S,
        )
    )
