"""Refuses connections of this machine's other users to a server on the loopback address.

Linux lists every TCP socket with its owner. If both ends of a connection are on this machine, both are in the
list. So the server knows the client's user without a secret.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.responses import PlainTextResponse

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_ROOT = 0


def find_owners(client_port: int, server_port: int, tables: tuple[Path, ...] = _TABLES) -> set[int]:
    """Find the user ids of the client's sockets that connect these two ports.

    A line of the table: ``0: 0100007F:D431 0100007F:1F90 01 ... UID ...``, with addresses and ports in
    hexadecimal.
    """
    found = set()
    for table in tables:
        for line in table.read_text().splitlines()[1:] if table.exists() else ():
            fields = line.split()
            ports = [int(address.rpartition(":")[2], 16) for address in fields[1:3]]
            if ports == [client_port, server_port]:
                found.add(int(fields[7]))
    return found


class OwnUserOnly:
    """Answers 403 to requests from another user's socket, and from a socket whose owner is unknown."""

    def __init__(self, application: ASGIApp) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See the ASGI specification."""
        if scope["type"] != "http" or self._is_allowed(scope["client"], scope["server"]):
            await self._application(scope, receive, send)
        else:
            await PlainTextResponse("another user's connection", 403)(scope, receive, send)

    @staticmethod
    def _is_allowed(client: Any, server: Any) -> bool:
        known = find_owners(client[1], server[1])
        return bool(known) and known <= {os.geteuid(), _ROOT}
