"""kerncap-mcp: serve the documented tools for language models, over standard streams or local HTTP."""

from __future__ import annotations

from enum import StrEnum
from importlib.util import find_spec
from typing import Annotated

import typer

from kerncap_stages.cli.options import VersionOption, make_stage_app
from kerncap_stages.compat import documented
from kerncap_stages.errors import DeviceError

app = make_stage_app()


class Transport(StrEnum):
    """How a client talks to the server."""

    STDIO = "stdio"
    HTTP = "http"


@app.command(
    epilog=documented.make_documented_epilog(
        "kerncap-mcp                                 a client starts it and talks over its standard streams\n"
        "kerncap-mcp --transport http --port 8000    serves http://127.0.0.1:8000/kerncap"
    )
)
def kerncap_mcp(
    transport: Annotated[Transport, typer.Option(help="How a client talks to the server.")] = Transport.STDIO,
    host: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help="For http: the address, 127.0.0.1 or ::1. Any other address is refused.",
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(metavar="N", min=0, max=65535, help="For http: the port; 0 takes a free one.")
    ] = 8000,
    path: Annotated[str, typer.Option(metavar="PATH", help="For http: the path of the URL.")] = "/kerncap",
    version: VersionOption = False,  # noqa: ARG001 - the option acts by itself
) -> None:
    """Serve profile, extract, validate, replay and show as tools of the Model Context Protocol.

    A client can run programs as the user who started the server. The server runs only what a call names.
    """
    if find_spec("mcp") is None:
        raise DeviceError("the Python package mcp is not installed", hint="pip install 'kerncap-stages[mcp]'")
    # The package mcp is optional, and --help works without it.
    from kerncap_stages.compat.mcp_server import serve_http, serve_stdio

    if transport is Transport.STDIO:
        serve_stdio()
    else:
        serve_http(host, port, path)


def main() -> None:
    """Run the command."""
    documented.run_documented(app)
