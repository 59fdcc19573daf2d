"""A service on the software GPU, for the kernel of tests/programs/evaluate/sums.hip and its project."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from captured_projects import copy_project
from programs import SOURCES
from stages import Stages, executable

from kerncap_stages.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SOURCE = SOURCES / "evaluate/sums.hip"


@dataclass
class Service:
    """A service that runs. ``capture``: the digest of the capture that its store holds."""

    stages: Stages
    process: subprocess.Popen[str]
    port: int
    token: str
    capture: str

    def ask(
        self, method: str, path: str, body: Any = None, *, token: str | None = None, raw: bytes | None = None
    ) -> tuple[int, Any]:
        connection = self.connect()
        data = raw if raw is not None or body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self.token if token is None else token}"}
        connection.request(method, path, data, headers)
        answer = connection.getresponse()
        read = json.loads(answer.read())
        connection.close()
        return answer.status, read

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)

    def post(self, *variants: dict[str, Any], **subject: str) -> list[dict[str, Any]]:
        status, read = self.ask("POST", "/evaluate", {**subject, "variants": list(variants)})
        assert status == 202, read
        return read["tasks"]

    def wait(self, tasks: list[dict[str, Any]], timeout: float = 120) -> list[dict[str, Any]]:
        body = {"ids": [each["id"] for each in tasks], "timeout": timeout}
        status, read = self.ask("POST", "/tasks/batch", body)
        assert status == 200, read
        return read["tasks"]

    def end(self, number: int = signal.SIGTERM) -> str:
        self.process.send_signal(number)
        _, err = self.process.communicate(timeout=60)
        assert self.process.returncode == -number, err
        return err


@pytest.fixture
def stages(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Stages:
    return copy_project(SOURCE, "sums", tmp_path_factory, tmp_path)


@pytest.fixture
def start(stages: Stages) -> Iterator[Callable[..., Service]]:
    """Starts a service; all are ended after the test."""
    services: list[Service] = []
    store = Store.open(stages.store)
    (entry,) = store.list_artifacts("capture")

    def start(*words: object, **variables: str) -> Service:
        process = subprocess.Popen(
            [*executable("evaluate-serve"), "project", "--port", "0", *map(str, words)],
            env={**stages.environment, **variables},
            cwd=stages.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # Tests that run in the background ignore it, and hand that on.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        line = process.stdout.readline()
        assert line, process.communicate()
        told = json.loads(line)
        port = int(told["url"].rpartition(":")[2])
        token = told.get("token") or variables["KERNCAP_SERVE_TOKEN"]
        services.append(Service(stages, process, port, token, str(entry.digest)))
        return services[-1]

    yield start
    for each in services:
        if each.process.poll() is None:
            os.kill(each.process.pid, signal.SIGKILL)
            each.process.communicate()


@pytest.fixture
def service(start: Callable[..., Service]) -> Service:
    return start("--timeout", 20)
