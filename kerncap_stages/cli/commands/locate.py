"""kc-locate: find the source of a captured kernel, its compile command and its headers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kerncap_stages.cli.console import emit, epilog, run, say
from kerncap_stages.cli.inputs import artifact_texts
from kerncap_stages.cli.options import ArtifactArguments, JsonOption, StoreOption, VersionOption, stage_app

if TYPE_CHECKING:
    from kerncap_stages.digest import Digest
    from kerncap_stages.locate.options import Options
    from kerncap_stages.manifests.source import Source
    from kerncap_stages.store import Store

app = stage_app(help_text="Find the source of a captured kernel.")


@app.command(
    epilog=epilog(
        "kc-capture @profile | kc-locate --source-dir ./src\n"
        "kc-locate @capture --source-dir ./src --compile-commands build/compile_commands.json"
    )
)
def locate(
    artifacts: ArtifactArguments = None,
    source_dir: Annotated[
        list[Path] | None,
        typer.Option(
            "--source-dir", "-s", metavar="DIR", help="Where the kernel's source lies. May be repeated."
        ),
    ] = None,
    compile_commands: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH", help="compile_commands.json, or its folder; else looked for near --source-dir."
        ),
    ] = None,
    define: Annotated[
        list[str] | None,
        typer.Option(
            "--define", "-D", metavar="NAME[=VALUE]", help="A macro for the compiler. May be repeated."
        ),
    ] = None,
    compiler: Annotated[
        str | None, typer.Option(metavar="PATH", help="The compiler, instead of the one that the build used.")
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Search again even if nothing has changed.")] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
    version: VersionOption = False,  # noqa: ARG001 - the option acts by itself
) -> None:
    """Find the source of a captured kernel: its definition, compile command and headers.

    Prints the digest of one source artifact for each capture. A kernel without source is a result too: the
    artifact says which case it is.
    """
    from kerncap_stages.locate.known_source import known_source, source_summary
    from kerncap_stages.locate.options import Options
    from kerncap_stages.store import Store

    options = Options(tuple(source_dir or ()), compile_commands, tuple(define or ()), compiler)
    opened = Store.open(store)
    for text in artifact_texts(artifacts):
        capture = opened.resolve(text)
        known = None if fresh else known_source(opened, capture, options)
        digest, made = known or run_locate(opened, capture, options, fresh=True)
        say(source_summary(made))
        emit(digest, opened.get(digest) if as_json else None)


def main() -> None:
    """Run kc-locate."""
    run(app)


def run_locate(
    store: Store, capture_digest: Digest, options: Options, *, fresh: bool = False
) -> tuple[Digest, Source]:
    """Publish and return the source manifest of a capture: see ``source.locating.locate``."""
    from kerncap_stages.locate.locating import locate as located

    return located(store, capture_digest, options, fresh=fresh)
