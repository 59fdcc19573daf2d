"""kc-locate: find the source of a captured kernel, its compile command and its headers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kerncap_stages.cli.console import make_epilog, run
from kerncap_stages.cli.options import (
    ArtifactArguments,
    JsonOption,
    SourceDirOption,
    StoreOption,
    VersionOption,
    make_stage_app,
)

app = make_stage_app(help_text="Find the source of a captured kernel.")


CompileCommandsOption = Annotated[
    Path | None,
    typer.Option(
        metavar="PATH",
        help="compile_commands.json, or its folder. Default: searched near --source-dir.",
    ),
]
DefineOption = Annotated[
    list[str] | None,
    typer.Option("--define", "-D", metavar="NAME[=VALUE]", help="A macro for the compiler. May be repeated."),
]
CompilerOption = Annotated[
    str | None, typer.Option(metavar="PATH", help="The compiler. Default: the one that the build used.")
]
FreshOption = Annotated[bool, typer.Option("--fresh", help="Search again even if nothing has changed.")]


@app.command(
    epilog=make_epilog(
        "kc-capture @profile | kc-locate --source-dir ./src\n"
        "kc-locate @capture --source-dir ./src --compile-commands build/compile_commands.json"
    )
)
def locate(
    artifacts: ArtifactArguments = None,
    source_dir: SourceDirOption = None,
    compile_commands: CompileCommandsOption = None,
    define: DefineOption = None,
    compiler: CompilerOption = None,
    fresh: FreshOption = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
    version: VersionOption = False,  # noqa: ARG001 - the option acts by itself
) -> None:
    """Find the source of a captured kernel: its definition, compile command and headers.

    Prints the digest of one source artifact for each capture. If there is no source, the artifact says why.
    """
    from kerncap_stages.cli.flows.locate import locate_sources

    locate_sources(
        store,
        artifacts,
        source_dirs=source_dir or (),
        compile_commands=compile_commands,
        defines=define or (),
        compiler=compiler,
        fresh=fresh,
        as_json=as_json,
    )


def main() -> None:
    """Run the stage."""
    run(app)
