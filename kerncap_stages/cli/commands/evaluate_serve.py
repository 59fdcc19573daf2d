"""kc-evaluate-serve: judge and time variants that clients post over HTTP."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from kerncap_stages.cli.console import make_epilog, run
from kerncap_stages.cli.evaluate_options import (
    DEFAULTS,
    JudgingOptions,
)
from kerncap_stages.cli.option_groups import spread
from kerncap_stages.cli.options import (
    StoreOption,
    VersionOption,
    make_stage_app,
)
from kerncap_stages.errors import DeviceError

app = make_stage_app()

ProjectsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="PROJECT...",
        help="Folders of generated projects. A client names one by the folder's name; sources are built "
        "there. Captures of the store are named by their digests.",
        show_default=False,
    ),
]
HostOption = Annotated[
    str, typer.Option(metavar="ADDRESS", help="Address to listen on. Traffic is never encrypted.")
]
PortOption = Annotated[int, typer.Option(metavar="N", min=0, max=65535, help="The port; 0 takes a free one.")]
TokenFileOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="A file with the token. Default: KERNCAP_SERVE_TOKEN, else a new one, which is printed.",
    ),
]
MaxBodyOption = Annotated[
    int, typer.Option(metavar="MIB", min=1, max=4096, help="Largest body of a request.")
]


@app.command(
    epilog=make_epilog(
        "kc-evaluate-serve ./isolated/scale --port 8077\n"
        'curl -H "Authorization: Bearer $TOKEN" http://127.0.0.1:8077/evaluate \\\n'
        '  -d \'{"project": "scale", "variants": [{"source": "...", "suffix": ".hip"}]}\'\n'
        'curl -H "Authorization: Bearer $TOKEN" http://127.0.0.1:8077/tasks/ID?timeout=60'
    )
)
@spread
def evaluate_serve(
    projects: ProjectsArgument = None,
    host: HostOption = "127.0.0.1",
    port: PortOption = 8077,
    token_file: TokenFileOption = None,
    max_body: MaxBodyOption = 64,
    judging: JudgingOptions = DEFAULTS,
    store: StoreOption = None,
    version: VersionOption = False,  # noqa: ARG001 - the option acts by itself
) -> None:
    """Judge and time variants that clients post over HTTP, as kc-evaluate does.

    Prints a line of JSON: the address, and the token if it is new. Each request needs the token. Serves
    until Ctrl-C or SIGTERM; what was judged by then is in the store. Each request and each verdict is a line
    on standard error. docs/evaluate.md describes the requests.
    """
    if find_spec("starlette") is None or find_spec("uvicorn") is None:
        raise DeviceError(
            "the Python packages starlette and uvicorn are not installed",
            hint="pip install 'kerncap-stages[serve]'",
        )
    from kerncap_stages.cli.flows import evaluate_serve as flow

    arguments = flow.ServeArguments(
        projects=tuple(projects or ()),
        host=host,
        port=port,
        token_file=token_file,
        max_body_mib=max_body,
        judging=judging,
    )
    flow.serve_evaluations(store, arguments)


def main() -> None:
    """Run the service."""
    run(app)
