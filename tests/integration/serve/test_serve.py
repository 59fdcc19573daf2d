"""kc-evaluate-serve on the software GPU, over real HTTP on the loopback address."""

from __future__ import annotations

import base64
import contextlib
import json
import resource
import signal
import time

import pytest
from programs import SOURCES, Build, Program, compile_once

WAYS = ("right", "faster", "half", "null", "for_ever", "keeps_results", "leaks", "signature", "large")
TOKEN = "a-token-of-the-test-0123456789"


def code(way):
    defines = (f"WAY={WAYS.index(way)}",)
    source = Program(SOURCES / "evaluate/sums.hip")
    built = compile_once(Build(source, "gfx90a", "O3", defines=defines, device_only=True))
    return {"name": way, "code": base64.b64encode(built.read_bytes()).decode(), "suffix": ".hsaco"}


def by_name(tasks):
    return {each["name"]: each for each in tasks}


def test_code_objects_and_sources_are_judged(service):
    source = (service.stages.folder / "project/kernel_variant.cpp").read_text()
    tasks = service.post(code("right"), code("half"), code("signature"), capture=service.capture)
    assert {each["status"] for each in tasks} == {"waiting"}
    tasks += service.post(
        {"name": "by flags", "source": source, "suffix": ".hip", "flags": ["-DWAY=1"]},
        {"name": "typo", "source": source.replace("__global__", "__globl__"), "suffix": ".hip"},
        {"name": "plugin", "source": source, "suffix": ".hip", "flags": ["-fplugin=evil.so"]},
        {"name": "narrow", "source": source, "suffix": ".hip", "launch": {"block_work_items": [1, 1, 1]}},
        {"name": "broken", "code": "AAAA", "suffix": ".hsaco"},
        project="project",
    )
    done = by_name(service.wait(tasks))
    assert {name: each["result"]["outcome"] for name, each in done.items()} == {
        "right": "right", "half": "wrong", "signature": "refused", "by flags": "right", "typo": "not_built",
        "plugin": "refused", "narrow": "wrong", "broken": "refused",
    }  # fmt: skip
    assert done["by flags"]["result"]["ratio"] < done["right"]["result"]["ratio"]
    assert "could do more" in done["plugin"]["result"]["reasons"][0]
    assert "kernel_variant.cpp:" in done["typo"]["result"]["reasons"][0]
    # What a client is told has no path of this machine.
    assert done["broken"]["result"]["reasons"][0].startswith("broken: ")
    assert not any("/tmp" in each for task in done.values() for each in task["result"]["reasons"])
    # The verdict is in the store, where kc-validate finds it.
    verdict = done["half"]["result"]["cases"][0]["verdict"].removeprefix("manifest:")
    assert service.stages.show(verdict)["passed"] is False
    status, health = service.ask("GET", "/health")
    assert (status, health["waiting"], health["projects"]) == (200, 0, ["project"])


def test_the_same_variant_is_one_task_with_the_name_that_each_client_gave(service):
    first = service.wait(service.post(code("right"), capture=service.capture))
    again = service.post(code("right"), capture=service.capture)
    assert again == first
    assert again[0]["status"] == "done"
    other = {**code("right"), "name": "another name"}
    posted = service.post(code("right"), other, capture=service.capture)
    assert [each["name"] for each in posted] == ["right", "another name"]
    assert {each["id"] for each in posted} == {first[0]["id"]}


def test_each_request_and_each_verdict_is_a_line_of_the_log(service):
    (task,) = service.wait(service.post({**code("right"), "name": "a\nb"}, capture=service.capture))
    assert service.ask("GET", "/health", token="wrong")[0] == 401
    assert service.ask("GET", "/nothing")[0] == 404
    lines = service.end().splitlines()
    assert [line for line in lines if not line.startswith("task ")] == [
        "127.0.0.1 POST /evaluate 202",
        "127.0.0.1 POST /tasks/batch 200",
        "127.0.0.1 GET /health 401",
        "127.0.0.1 GET /nothing 404",
    ]
    (verdict,) = (line for line in lines if line.startswith("task "))
    assert verdict.startswith(f"task {task['id'][:12]} a\\nb: right, ratio ")


def test_a_wrong_token_is_told_to_a_client_that_sends_much(service):
    for size in (3 << 20, 12 << 20):
        status, read = service.ask("POST", "/evaluate", token="wrong", raw=b"x" * size)
        assert status == 401, size
        assert "token" in read["error"]["message"]


def test_only_the_token_opens(service):
    for token in ("", "x", service.token[:-1], service.token + "x", "\xff" * 20):
        for method, path in (("GET", "/health"), ("POST", "/evaluate"), ("GET", "/nothing")):
            status, read = service.ask(method, path, token=token)
            assert status == 401
            assert "token" in read["error"]["message"]
    connection = service.connect()
    connection.request("GET", "/health")
    assert connection.getresponse().status == 401
    connection.close()
    assert service.ask("GET", "/health")[0] == 200


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b"{", 400, "must be JSON"),
        (b"[]", 400, "a JSON object"),
        (b"\xff\xfe", 400, "must be JSON"),
        (b"[" * 100_000, 400, "must be JSON"),
        ({}, 400, "either capture or project"),
        ({"capture": "@capture", "variants": [{}]}, 400, "must be a digest"),
        ({"capture": "0" * 64, "variants": []}, 400, "a list of 1"),
        ({"capture": "0" * 64, "variants": [{"code": "!", "suffix": ".hsaco"}]}, 400, "variants[0].code"),
        ({"capture": "0" * 64, "variants": [{"code": "", "suffix": "/../x"}]}, 400, "variants[0].suffix"),
        ({"capture": "0" * 64, "variants": [{"code": "", "suffix": ".hsaco"}]}, 404, "no capture 0000"),
        ({"project": "../project", "variants": [{"code": "", "suffix": ".hsaco"}]}, 404, "no such project"),
        ({"project": "project", "variants": [{"source": "\ud800", "suffix": ".hip"}]}, 400, "source"),
        (
            {"project": "project", "variants": [{"source": "", "suffix": ".hip", "run": 1}]},
            400,
            "with only these",
        ),
        *(
            (
                {"project": "project", "variants": [{"source": "", "suffix": ".hip", "launch": launch}]},
                400,
                f"variants[0].launch: {said}",
            )
            for launch, said in (
                ({"block_work_items": [2048, 1, 1]}, "block_work_items: a block has at most 1024"),
                ({"grid_blocks": [float("nan"), 1, 1]}, "grid_blocks is not a list of three numbers"),
                ({"grid_blocks": [-1, 1, 1]}, "grid_blocks is not a list of three numbers"),
                ({"dynamic_lds_bytes": "x"}, "dynamic_lds_bytes is 'x'"),
                ({"blocks": 1}, "expected an object with grid_blocks"),
            )
        ),
    ],
)
def test_what_is_wrong_is_told(service, body, status, said):
    raw = body if isinstance(body, bytes) else None
    found, read = service.ask("POST", "/evaluate", body, raw=raw)
    assert found == status, read
    assert said in read["error"]["message"]


def test_more_that_is_wrong(service):
    source = {"source": "", "suffix": ".hip"}
    status, read = service.ask("POST", "/evaluate", {"capture": service.capture, "variants": [source]})
    assert status == 400
    assert "in a project only" in read["error"]["message"]
    assert service.ask("GET", "/tasks/" + "0" * 64)[0] == 404
    assert service.ask("GET", "/tasks/x?timeout=soon")[0] == 400
    assert service.ask("GET", "/tasks/x?timeout=nan")[0] == 400
    assert service.ask("POST", "/tasks/batch", {"ids": ["x"]})[0] == 404
    assert service.ask("POST", "/tasks/batch", {"ids": [1]})[0] == 400
    assert service.ask("POST", "/tasks/batch", {"ids": [], "timeout": 10**400})[0] == 400
    assert service.ask("GET", "/evaluate")[0] == 405
    assert service.ask("GET", "/nothing")[0] == 404


def test_a_huge_body_is_not_read(start):
    service = start("--max-body", 1)
    connection = service.connect()
    connection.putrequest("POST", "/evaluate")
    connection.putheader("Authorization", f"Bearer {service.token}")
    connection.putheader("Content-Length", str(1 << 40))
    connection.endheaders()
    assert connection.getresponse().status == 413
    connection.close()
    connection = service.connect()  # of a length that nobody says before
    connection.putrequest("POST", "/evaluate")
    connection.putheader("Authorization", f"Bearer {service.token}")
    connection.putheader("Transfer-Encoding", "chunked")
    connection.endheaders()
    part = b"x" * (1 << 16)
    sent = 0
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        for sent in range(1 << 12):  # noqa: B007
            connection.send(f"{len(part):x}\r\n".encode() + part + b"\r\n")
    assert sent < (1 << 12) - 1
    connection.close()
    assert service.ask("GET", "/health")[0] == 200


def test_a_wait_ends_when_its_time_is_up_and_a_client_may_go_away(service):
    (task,) = service.post(code("for_ever"), capture=service.capture)
    began = time.monotonic()
    status, read = service.ask("GET", f"/tasks/{task['id']}?timeout=0.5")
    assert (status, read["status"]) == (200, "waiting")
    assert 0.4 < time.monotonic() - began < 10
    connection = service.connect()
    connection.request(
        "GET", f"/tasks/{task['id']}?timeout=100", headers={"Authorization": f"Bearer {service.token}"}
    )
    connection.close()
    # The task goes on: its replay ends by --timeout.
    (done,) = service.wait([task])
    assert done["result"]["outcome"] == "wrong"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_and_what_was_judged_is_kept(start, number):
    service = start("--timeout", 60, KERNCAP_SERVE_TOKEN=TOKEN)
    service.wait(service.post(code("right"), code("half"), capture=service.capture))
    (task,) = service.post(code("for_ever"), capture=service.capture)
    waiting = service.connect()
    headers = {"Authorization": f"Bearer {service.token}"}
    waiting.request("GET", f"/tasks/{task['id']}?timeout=100", headers=headers)
    time.sleep(0.5)  # it waits in the service now
    began = time.monotonic()
    service.process.send_signal(number)
    assert json.loads(waiting.getresponse().read())["status"] == "waiting"
    waiting.close()
    _, err = service.process.communicate(timeout=60)
    assert service.process.returncode == -number
    assert not [line for line in err.splitlines() if not line.startswith(("127.0.0.1 ", "task "))]
    assert time.monotonic() - began < 20
    evaluation = service.stages.show("@evaluation")
    assert {each["name"] for each in evaluation["variants"]} == {"right", "half"}
    assert not evaluation["complete"]
    # Another one does not know the task, but its verdict.
    again = start("--timeout", 60, KERNCAP_SERVE_TOKEN=TOKEN)
    (task,) = again.post(code("half"), capture=again.capture)
    assert task["status"] == "waiting"
    (done,) = again.wait([task])
    verdicts = {each["name"]: each["cases"][0]["verdict"] for each in evaluation["variants"]}
    assert done["result"]["cases"][0]["verdict"] == verdicts["half"]


def test_two_subjects_take_turns(service):
    source = (service.stages.folder / "project/kernel_variant.cpp").read_text()
    tasks = service.post(code("right"), capture=service.capture)
    tasks += service.post({"name": "source", "source": source, "suffix": ".hip"}, project="project")
    tasks += service.post(code("half"), capture=service.capture)
    assert [each["result"]["outcome"] for each in service.wait(tasks)] == ["right", "right", "wrong"]


def test_the_token_is_told_once_and_only_if_it_is_new(start, tmp_path):
    first, second = start(), start()
    assert first.token != second.token
    assert len(first.token) >= 32
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    given = start("--token-file", tmp_path / "token", KERNCAP_SERVE_TOKEN=TOKEN)
    assert given.ask("GET", "/health", token=TOKEN)[0] == 200
    err = given.end()
    assert TOKEN not in err
    (tmp_path / "short").write_text("secret")
    assert "16 to" in given.stages.run("evaluate-serve", "--token-file", tmp_path / "short").must(2).err


def test_where_it_serves(start):
    service = start()
    stages = service.stages
    taken = stages.run("evaluate-serve", "--port", service.port).must(4)
    assert "cannot listen" in taken.err
    assert "is not an IP address" in stages.run("evaluate-serve", "--host", "example.org").must(2).err
    for folder in ("nothere", "@capture"):
        assert f"no such folder: {folder}" in stages.run("evaluate-serve", folder).must(2).err
    assert ". is not a project" in stages.run("evaluate-serve", ".").must(2).err


def test_a_client_that_leaves_within_its_body_is_no_news(service):
    connection = service.connect()
    connection.putrequest("POST", "/evaluate")
    connection.putheader("Authorization", f"Bearer {service.token}")
    connection.putheader("Content-Length", "1000")
    connection.endheaders()
    connection.send(b"{")
    time.sleep(0.5)
    connection.close()
    assert service.ask("GET", "/health")[0] == 200
    assert service.end().splitlines() == ["127.0.0.1 POST /evaluate 400", "127.0.0.1 GET /health 200"]


def test_a_thousand_idle_connections_shut_nobody_out(service):
    least = 2048
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < least:
        pytest.skip(f"a process may open {hard} files here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, least), hard))
    idle = []
    try:
        for _ in range(1005):
            idle.append(service.connect())
            idle[-1].connect()
        assert service.ask("GET", "/health")[0] == 200
    finally:
        for each in idle:
            each.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert service.end().splitlines() == ["127.0.0.1 GET /health 200"]


REFERENCE = """
def reference(args):
    columns, rows = args["columns"], 64
    sums = args["values"][: rows * columns].reshape(rows, columns)%s.sum(axis=1)
    return {"results": args["results"][:rows] + sums}
"""


def test_a_reference_is_tried_on_the_projects_before_anything_is_served(start, stages, tmp_path):
    files = {"right": "", "wrong": "[:, 1:]", "fails": ".nothing"}
    for name, edit in files.items():
        (tmp_path / f"{name}.py").write_text(REFERENCE % edit)
    bounds = ("--rtol", "1e-3")
    words = ("evaluate-serve", "project", *bounds, "--reference")
    refused = stages.run(*words, tmp_path / "wrong.py").must(6)
    failed = stages.run(*words, tmp_path / "fails.py").must(2)
    assert "project project: " in refused.err
    assert "project project: " in failed.err
    assert "nothing" in failed.err
    assert (refused.out, failed.out) == ("", "")
    service = start(*bounds, "--reference", tmp_path / "right.py")
    (done,) = service.wait(service.post(code("right"), capture=service.capture))
    verdict = done["result"]["cases"][0]["verdict"].removeprefix("manifest:")
    assert service.stages.show(verdict)["precision"]["file_name"] == "right.py"
