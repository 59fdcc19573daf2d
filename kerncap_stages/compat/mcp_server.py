"""The tools of kerncap-mcp, and the two ways to serve them, by the protocol's official SDK.

A process of its own (``mcp_worker``) does each call. When the client cancels the call or disconnects, that
process ends the program that it runs, and then itself.
"""

from __future__ import annotations

import ipaddress
import socket
from typing import Annotated, Any

import anyio
import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types import ToolAnnotations
from pydantic import Field

from kerncap_stages import __version__
from kerncap_stages.cli.console import say
from kerncap_stages.compat.mcp_calls import call
from kerncap_stages.compat.mcp_peers import OwnUserOnly
from kerncap_stages.errors import DeviceError, Refused, UsageError

_INSTRUCTIONS = """\
These tools take one GPU kernel out of a running program, so that you can work on it alone. profile_kernels
ranks the program's kernels. extract_kernel makes a project of one kernel. Edit kernel_variant.cpp in the
project and run `make recompile` there. validate_reproducer judges the rebuilt kernel, and replay_reproducer
times it. Paths are relative to the folder in which the server was started."""

_GRACE_S = 2  # how long connections may stay open when a signal ends the server
_Project = Annotated[str, Field(description="Folder of a project that extract_kernel made.")]
_Hsaco = Annotated[
    str | None,
    Field(description="A rebuilt code object; searched in the current folder, then in the project."),
]


async def profile_kernels(
    cmd: Annotated[list[str], Field(description="The program and its arguments; no shell is involved.")],
    context: Context[Any, Any],
    output_path: Annotated[str | None, Field(description="Also write the profile to this file.")] = None,
) -> dict[str, Any]:
    """Run a program and rank its GPU kernels by total time, the largest first."""
    return await call("profile_kernels", {"cmd": cmd, "output_path": output_path}, context)


async def extract_kernel(
    kernel_name: Annotated[
        str, Field(description="Part of the kernel's name, long enough to match only one kernel.")
    ],
    cmd: Annotated[str, Field(description="The program and its arguments; no shell runs it.")],
    context: Context[Any, Any],
    source_dir: Annotated[str | None, Field(description="Folder with the kernel's source.")] = None,
    output: Annotated[
        str | None, Field(description="The project's folder. Default: ./isolated/KERNEL.")
    ] = None,
    language: Annotated[
        str | None, Field(description="hip, cuda or triton. By default it is detected.")
    ] = None,
    dispatch: Annotated[
        int, Field(description="Which dispatch of the kernel, counted from 0; -1 is the first.")
    ] = -1,
) -> dict[str, Any]:
    """Run a program, capture one dispatch of a kernel with all its memory, and make a project of it."""
    arguments = {
        "kernel_name": kernel_name,
        "cmd": cmd,
        "source_dir": source_dir,
        "output": output,
        "language": language,
        "dispatch": dispatch,
    }
    return await call("extract_kernel", arguments, context)


async def validate_reproducer(
    reproducer_dir: _Project,
    context: Context[Any, Any],
    tolerance: Annotated[
        float | None, Field(description="Largest absolute error. Without bounds, bytes are compared.")
    ] = None,
    rtol: Annotated[float | None, Field(description="Largest error relative to the captured value.")] = None,
    hsaco: _Hsaco = None,
) -> dict[str, Any]:
    """Compare what a rebuilt kernel writes with what the captured one wrote in the program.

    Without hsaco, candidate.hsaco, else optimized.hsaco in the project is used. If there is neither, the
    captured kernel itself is checked (mode smoke).
    """
    arguments = {"reproducer_dir": reproducer_dir, "tolerance": tolerance, "rtol": rtol, "hsaco": hsaco}
    return await call("validate_reproducer", arguments, context)


async def replay_reproducer(
    reproducer_dir: _Project,
    context: Context[Any, Any],
    hsaco: _Hsaco = None,
    iterations: Annotated[int, Field(description="How many runs, each from the captured state.")] = 1,
    dump_output: Annotated[
        bool, Field(description="After the last run, write every region to output/ in the project.")
    ] = False,
    hip_launch: Annotated[bool, Field(description="Launch through the HIP runtime instead of HSA.")] = False,
) -> dict[str, Any]:
    """Run the captured dispatch again, alone, at its original addresses, and time it."""
    arguments = {
        "reproducer_dir": reproducer_dir,
        "hsaco": hsaco,
        "iterations": iterations,
        "dump_output": dump_output,
        "hip_launch": hip_launch,
    }
    return await call("replay_reproducer", arguments, context)


async def show_artifact(
    artifact: Annotated[
        str,
        Field(description="A digest or its start, a name, @ or @kind for the latest, or a project's folder."),
    ],
    context: Context[Any, Any],
) -> dict[str, Any]:
    """Return the manifest of an artifact in the store: everything that is recorded about it."""
    return await call("show_artifact", {"artifact": artifact}, context, in_turn=False)


def make_server() -> MCPServer[Any]:
    """Make the server with its tools."""
    server: MCPServer[Any] = MCPServer(
        "kerncap", version=__version__, instructions=_INSTRUCTIONS, log_level="WARNING"
    )
    # These two run a program that the client chooses, so the server cannot say that they are harmless.
    server.add_tool(profile_kernels)
    server.add_tool(extract_kernel)
    confined = ToolAnnotations(destructive_hint=False, open_world_hint=False)
    server.add_tool(validate_reproducer, annotations=confined)
    server.add_tool(replay_reproducer, annotations=confined)
    server.add_tool(show_artifact, annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False))
    return server


def serve_stdio() -> None:
    """Serve over standard input and output, until the input ends."""
    anyio.run(make_server().run_stdio_async)


def serve_http(host: str, port: int, path: str) -> None:
    """Serve over HTTP on the loopback address, until a signal comes.

    Raises Refused for any other address, UsageError for a path without a slash, DeviceError for a used port.
    """
    address = _read_loopback(host)
    if not path.startswith("/"):
        raise UsageError(f"--path {path}: it must begin with a slash", hint="--path /kerncap")
    with socket.socket(socket.AF_INET6 if address.version == 6 else socket.AF_INET) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((str(address), port))
        except OSError as error:
            raise DeviceError(
                f"cannot listen on port {port}: {error.strerror}", hint="another --port; 0 takes a free one"
            ) from error
        port = listener.getsockname()[1]
        shown = f"[{address}]" if address.version == 6 else str(address)
        # A page in a browser must not reach the server by a name that resolves to this machine (DNS
        # rebinding).
        hosts = [f"{name}:{port}" for name in (shown, "localhost")]
        security = TransportSecuritySettings(
            allowed_hosts=hosts, allowed_origins=[f"http://{name}" for name in hosts]
        )
        application = make_server().streamable_http_app(
            streamable_http_path=path, transport_security=security, host=str(address)
        )
        settings = uvicorn.Config(
            OwnUserOnly(application), log_level="warning", timeout_graceful_shutdown=_GRACE_S
        )
        server = uvicorn.Server(settings)
        listener.listen()
        say(f"kerncap-mcp: serving http://{shown}:{port}{path}")
        anyio.run(server.serve, [listener])


def _read_loopback(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Read a loopback address. Raises Refused for other addresses, and for names, which may lead anywhere."""
    try:
        address = ipaddress.ip_address("127.0.0.1" if host == "localhost" else host.strip("[]"))
    except ValueError:
        address = None
    if address is None or not address.is_loopback:
        raise Refused(
            f"--host {host}: every client can run programs as you, so kerncap-mcp serves this machine only",
            hint="leave --host out; from another machine, forward the port: ssh -L 8000:127.0.0.1:8000",
        )
    return address
