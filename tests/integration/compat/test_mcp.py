"""kerncap-mcp, asked by the protocol's own client: its tools, its errors, its limits."""

from __future__ import annotations

import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
from contextlib import asynccontextmanager

import anyio
import httpx2
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

TOOLS = {
    "profile_kernels": ["cmd", "output_path"],
    "extract_kernel": ["kernel_name", "cmd", "source_dir", "output", "language", "dispatch"],
    "validate_reproducer": ["reproducer_dir", "tolerance", "rtol", "hsaco"],
    "replay_reproducer": ["reproducer_dir", "hsaco", "iterations", "dump_output", "hip_launch"],
    "show_artifact": ["artifact"],
}
# Says which process it is, and then waits for ever.
WAITER = """
import os, pathlib, signal, sys
pathlib.Path(sys.argv[1]).write_text(str(os.getpid()))
signal.pause()
"""
TIMEOUT_S = 60


@asynccontextmanager
async def over_stdio(shell):
    words = ["-c", "echo $$ > server.pid; exec kerncap-mcp"]
    server = StdioServerParameters(command="bash", args=words, env=shell.environment, cwd=shell.folder)
    with (shell.folder / "errors.txt").open("w") as errors:
        async with Client(stdio_client(server, errors)) as client:
            yield client


def serving(shell, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        ["kerncap-mcp", "--transport", "http", "--port", "0", *words],
        stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=shell.folder, env=shell.environment,
    )  # fmt: skip


@asynccontextmanager
async def over_http(shell):
    with serving(shell) as server:
        try:
            line = await anyio.to_thread.run_sync(server.stderr.readline)
            url = re.fullmatch(r"kerncap-mcp: serving (http://127\.0\.0\.1:\d+/kerncap)\n", line)[1]
            async with Client(url) as client:
                client.url = url
                yield client
        finally:
            server.terminate()
            server.stderr.read()


def run(use, transport, shell):
    async def main():
        async with transport(shell) as client:
            await use(client)

    anyio.run(main)


async def answer(client, tool: str, progress=None, **arguments):
    result = await client.call_tool(tool, arguments, progress_callback=progress)
    assert not result.is_error, result.content
    assert json.loads(result.content[0].text) == result.structured_content
    return result.structured_content


async def refusal(client, tool: str, **arguments) -> str:
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    return result.content[0].text


def test_each_tool_answers(shell, application):
    project = shell.folder / "project"

    async def use(client):
        said = []

        async def progress(done, total, about):
            said.append((done, total, about))

        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert {name: list(tool.input_schema["properties"]) for name, tool in listed.items()} == TOOLS
        kernels = (await answer(client, "profile_kernels", cmd=[f"{application}/demo"]))["kernels"]
        assert any(kernel["name"].startswith("demo::add_rows(") for kernel in kernels)
        made = await answer(
            client, "extract_kernel", progress, kernel_name="demo::add_rows", cmd=f"{application}/demo",
            source_dir=str(application), output="project", dispatch=1,
        )  # fmt: skip
        assert made["output_dir"] == str(project)
        assert made["has_source"] is True
        assert "kernel_variant.cpp" in made["generated_files"]
        assert [done for done, _, _ in said] == sorted(done for done, _, _ in said)
        assert any(about.startswith("capture: demo::add_rows") for _, _, about in said)
        assert json.loads((project / "capture/dispatch.json").read_text())["dispatch_index"] == 1
        replayed = await answer(client, "replay_reproducer", reproducer_dir="project", iterations=2)
        assert (replayed["returncode"], replayed["iterations"]) == (0, 2)
        assert "Average GPU time: " in replayed["stdout"]
        shown = await answer(client, "show_artifact", artifact="project")
        assert shown["manifest"]["kind"] == "reproducer"
        shown = await answer(client, "show_artifact", artifact="@capture")
        assert shown["digest"] == made["capture"]

    run(use, over_stdio, shell)


def test_http_serves_the_same(shell, project):
    shutil.copy(project / "capture/kernel.hsaco", project / "optimized.hsaco")

    async def use(client):
        assert {tool.name for tool in (await client.list_tools()).tools} == TOOLS.keys()
        verdict = await answer(client, "validate_reproducer", reproducer_dir="project", tolerance=1e-3)
        assert (verdict["passed"], verdict["mode"], verdict["atol"]) == (True, "numeric", 1e-3)
        assert verdict["result_line"].startswith("Result: PASS  (numeric, ")

    run(use, over_http, shell)


def test_errors_are_ours_with_the_next_step(shell, application):
    async def use(client):
        said = await refusal(client, "replay_reproducer", reproducer_dir="absent")
        assert "absent does not exist\nnext: `kerncap extract` makes one" in said
        said = await refusal(client, "show_artifact", artifact="@capture")
        assert "there is no store at " in said
        assert "\nnext: `kc-profile -- ./app` creates one there" in said
        said = await refusal(client, "profile_kernels", cmd=["./no-such-program"])
        assert "cannot run ./no-such-program" in said
        said = await refusal(client, "extract_kernel", kernel_name="k", cmd="./app | tee log")
        assert "the command is run without a shell" in said
        # A name that looks like an option is a name.
        said = await refusal(client, "extract_kernel", kernel_name="--force", cmd=f"{application}/demo")
        assert "never dispatched a kernel that matches '--force'" in said
        assert "Field required" in await refusal(client, "profile_kernels")

    run(use, over_stdio, shell)


def wait_for(descriptor: int, what: str) -> None:
    assert select.select([descriptor], [], [], TIMEOUT_S)[0], what


@pytest.mark.parametrize("how", ["cancelled", "disconnected", "server killed"])
def test_the_program_ends_with_its_call(shell, how):
    mark = shell.folder / "mark"
    os.mkfifo(mark)
    reader = os.open(mark, os.O_RDONLY | os.O_NONBLOCK)
    program = -1

    async def use(client):
        nonlocal program
        async with anyio.create_task_group() as tasks:
            words = [sys.executable, "-c", WAITER, str(mark)]
            tasks.start_soon(client.call_tool, "profile_kernels", {"cmd": words})
            await anyio.to_thread.run_sync(wait_for, reader, "the program was not started")
            program = os.pidfd_open(int(os.read(reader, 100)))
            if how == "server killed":
                os.kill(int((shell.folder / "server.pid").read_text()), signal.SIGKILL)
            tasks.cancel_scope.cancel()
        if how == "cancelled":
            await anyio.to_thread.run_sync(wait_for, program, "the program goes on")
            assert "cannot run" in await refusal(client, "profile_kernels", cmd=["./no-such-program"])

    try:
        run(use, over_stdio, shell)
        wait_for(program, "the program goes on")
    finally:
        os.close(reader)
        os.close(program)


@pytest.mark.parametrize(
    ("headers", "status"),
    [({"Host": "evil.example"}, 421), ({"Origin": "http://evil.example"}, 403)],
)
def test_a_page_in_a_browser_does_not_reach_the_server(shell, headers, status):
    async def use(client):
        async with httpx2.AsyncClient() as other:
            message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
            refused = await other.post(client.url, json=message, headers=headers)
        assert refused.status_code == status

    run(use, over_http, shell)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_an_address_that_others_reach_is_refused(shell, host):
    done = shell.run(["kerncap-mcp", "--transport", "http", "--host", host, "--port", "0"], code=1)
    assert "serves this machine only" in done.err


def test_a_port_that_is_taken_is_told(shell):
    with serving(shell) as server:
        try:
            port = re.search(r":(\d+)/", server.stderr.readline())[1]
            done = shell.run(["kerncap-mcp", "--transport", "http", "--port", port], code=1)
            assert f"cannot listen on port {port}" in done.err
        finally:
            server.terminate()
            server.stderr.read()


def test_without_the_sdk_it_says_what_to_install(shell):
    program = (
        "import sys; from kerncap_stages.compat import mcp_cli; mcp_cli.find_spec = lambda name: None; "
        "sys.argv = ['kerncap-mcp']; mcp_cli.main()"
    )
    done = shell.run([sys.executable, "-P", "-c", program], code=1)
    assert "pip install 'kerncap-stages[mcp]'" in done.err
