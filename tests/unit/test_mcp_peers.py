"""Who may talk to kerncap-mcp over HTTP: the owner of a connection's other end."""

from __future__ import annotations

import os
import socket

import anyio
import pytest

from kerncap_stages.compat import mcp_peers
from kerncap_stages.compat.mcp_peers import OwnUserOnly, find_owners


def test_the_owner_of_a_connection_is_found():
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
        with socket.create_connection(address) as client:
            assert find_owners(client.getsockname()[1], address[1]) == {os.geteuid()}
        assert find_owners(0, address[1]) == set()


TABLE = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 101 1
   1: 0100007F:D431 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1234        0 102 1
   2: 0100007F:1F90 0100007F:D431 01 00000000:00000000 00:00000000 00000000  1000        0 103 1
"""


def test_only_the_clients_end_counts(tmp_path):
    table = tmp_path / "tcp"
    table.write_text(TABLE)
    assert find_owners(0xD431, 0x1F90, (table, tmp_path / "tcp6")) == {1234}
    assert find_owners(0x1F90, 0, (table,)) == {1000}
    assert find_owners(1, 2, (table,)) == set()


@pytest.mark.parametrize(
    ("known", "status"),
    [({os.geteuid()}, 200), ({0}, 200), ({os.geteuid() + 1}, 403), ({os.geteuid(), 1234}, 403), (set(), 403)],
)
def test_requests_of_others_are_refused(monkeypatch, known, status):
    monkeypatch.setattr(mcp_peers, "find_owners", lambda _client, _server: known)
    sent = []

    async def application(_scope, _receive, send):
        await send({"type": "http.response.start", "status": 200})

    async def main():
        async def send(message):
            sent.append(message)

        scope = {"type": "http", "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 2)}
        await OwnUserOnly(application)(scope, None, send)

    anyio.run(main)
    assert sent[0]["status"] == status
