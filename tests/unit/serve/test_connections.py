"""Connections that ask for nothing, over real sockets of this machine; the application is the service's."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace

import pytest

from kerncap_stages.serve import app as app_module
from kerncap_stages.serve import connections as connections_module
from kerncap_stages.serve import server as server_module
from kerncap_stages.serve.app import make_app
from kerncap_stages.serve.server import listen, make_server

TOKEN = "a-token-of-the-test-0123456789"
LIMIT_S = 30
ASK = f"GET /health HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode()
WAIT = ASK.replace(b"/health", b"/tasks/x?timeout=20")


class MadeUpTasks:
    """One task that is never done."""

    waiting = 1
    task = SimpleNamespace(describe=dict)

    def find(self, _identity):
        return self.task

    def call_when_done(self, _task, _then):
        self.asked += 1

    def forget(self, _task, _then):
        pass

    asked = 0


def serve(talk):
    """Run a server, and a conversation with it: called with a function that connects, and the tasks."""

    async def run():
        listener = listen("127.0.0.1", 0)
        tasks = MadeUpTasks()
        subjects = SimpleNamespace(list_projects=list)
        app = make_app(subjects, tasks, TOKEN, 1 << 20, lambda: server.should_exit, lambda _: None)
        server = make_server(app)
        serving = asyncio.create_task(server.serve([listener]))
        streams = []

        async def connect():
            streams.append(await asyncio.open_connection("127.0.0.1", listener.getsockname()[1]))
            return streams[-1]

        try:
            await asyncio.wait_for(talk(connect, tasks), LIMIT_S)
        finally:
            for _, writer in streams:
                writer.close()
            server.should_exit = True
            await serving
            listener.close()

    asyncio.run(run())


async def ask(stream):
    reader, writer = stream
    writer.write(ASK)
    return await read_answer(reader)


async def read_answer(reader):
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    length = int(head.partition("content-length: ")[2].partition("\r\n")[0])
    return int(head.split()[1]), json.loads(await reader.readexactly(length))


async def is_closed(stream):
    try:
        return await stream[0].read() == b""
    except ConnectionResetError:
        return True


def test_idle_connections_shut_nobody_out(monkeypatch):
    monkeypatch.setattr(connections_module, "MAX_CONNECTIONS", 10)

    async def talk(connect, _tasks):
        kept = await connect()
        assert (await ask(kept))[0] == 200
        idle = [await connect() for _ in range(30)]
        status, health = await ask(await connect())
        assert (status, health["status"]) == (200, "ok")
        assert await is_closed(idle[0])  # the oldest are
        assert await is_closed(kept)
        assert (await ask(idle[-1]))[0] == 200

    serve(talk)


def test_a_request_that_is_under_way_keeps_its_connection(monkeypatch):
    monkeypatch.setattr(connections_module, "MAX_CONNECTIONS", 10)
    monkeypatch.setattr(connections_module, "REQUEST_S", 0.2)

    async def talk(connect, tasks):
        reader, writer = await connect()
        writer.write(WAIT.replace(b"=20", b"=2"))
        while tasks.asked == 0:
            await asyncio.sleep(0.01)
        idle = [await connect() for _ in range(30)]
        assert (await ask(await connect()))[0] == 200
        assert (await read_answer(reader))[0] == 200
        assert await is_closed(idle[-1])  # nothing came on it

    serve(talk)


@pytest.mark.parametrize("sent", [b"", ASK[:40]], ids=["nothing", "a part"])
@pytest.mark.parametrize("asked_before", [False, True])
def test_a_request_whose_headers_do_not_come_is_ended(monkeypatch, sent, asked_before):
    monkeypatch.setattr(connections_module, "REQUEST_S", 0.3)
    monkeypatch.setattr(server_module, "_IDLE_CONNECTION_S", 1)

    async def talk(connect, _tasks):
        stream = await connect()
        if asked_before:
            assert (await ask(stream))[0] == 200
        stream[1].write(sent)
        assert await is_closed(stream)

    serve(talk)


def test_more_requests_than_are_served_at_once_are_told_so_in_json(monkeypatch):
    monkeypatch.setattr(app_module, "MAX_REQUESTS", 3)

    async def talk(connect, tasks):
        for _ in range(3):
            _, writer = await connect()
            writer.write(WAIT)
        while tasks.asked < 3:
            await asyncio.sleep(0.01)
        status, told = await ask(await connect())
        assert (status, told["error"]["status"]) == (503, 503)
        assert "3 requests" in told["error"]["message"]

    serve(talk)
