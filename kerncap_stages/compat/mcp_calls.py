"""One call of a tool: start a worker process, pass on its progress, return its answer, and end it."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any

import anyio
from anyio.streams.buffered import BufferedByteReceiveStream
from mcp.server.mcpserver.exceptions import ToolError

if TYPE_CHECKING:
    from anyio.abc import Process
    from mcp.server.mcpserver import Context

_WORKER = (sys.executable, "-P", "-m", "kerncap_stages.compat.mcp_worker")
_MAX_LINE_BYTES = 256 << 20
# The worker asks its program to end, and kills it 5 s later.
_GRACE_S = 15.0
# Two programs on one GPU would disturb each other's times, and two extractions would write one folder.
_turn = anyio.Lock()


async def call(
    tool: str, arguments: dict[str, Any], context: Context[Any, Any], *, in_turn: bool = True
) -> dict[str, Any]:
    """Have a worker run a tool, and pass on its progress. Raises ToolError with the worker's message.

    in_turn: wait until no other call is running.
    """
    async with _turn if in_turn else nullcontext():
        process = await anyio.open_process(_WORKER, stderr=None)
        try:
            return await _answer(process, {"tool": tool, "arguments": arguments}, context)
        finally:
            with anyio.CancelScope(shield=True):
                await _end(process)


async def _answer(process: Process, request: dict[str, Any], context: Context[Any, Any]) -> dict[str, Any]:
    assert process.stdin is not None
    assert process.stdout is not None
    lines = BufferedByteReceiveStream(process.stdout)
    try:
        await process.stdin.send(json.dumps(request).encode() + b"\n")
        while True:
            message = json.loads(await lines.receive_until(b"\n", _MAX_LINE_BYTES))
            if "result" in message:
                result: dict[str, Any] = message["result"]
                return result
            if "error" in message:
                hint = f"\nnext: {message['hint']}" if message["hint"] else ""
                raise ToolError(f"{message['error']}{hint}")
            await context.report_progress(message["done"], message["total"], message["about"])
    except (anyio.BrokenResourceError, anyio.EndOfStream, anyio.IncompleteRead) as error:
        code = await process.wait()
        raise ToolError(f"{request['tool']} ended without an answer (exit code {code})") from error


async def _end(process: Process) -> None:
    """Close the worker's input, so that it ends its program and itself; kill it if it does not."""
    assert process.stdin is not None
    with suppress(anyio.BrokenResourceError):
        await process.stdin.aclose()
    with anyio.move_on_after(_GRACE_S):
        await process.wait()
    if process.returncode is None:
        process.kill()
    await process.aclose()
