"""kc-validate: whether a rebuilt kernel does what the captured one did."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kerncap_stages.cli.console import emit, epilog, run, say
from kerncap_stages.cli.inputs import artifact_texts
from kerncap_stages.cli.options import (
    ArtifactOrProjectArguments,
    JsonOption,
    ReplayTimeoutOption,
    StoreOption,
    VersionOption,
    stage_app,
)
from kerncap_stages.errors import ExitCode, UsageError
from kerncap_stages.text.terminal import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kerncap_stages.digest import Digest
    from kerncap_stages.store import Store

app = stage_app()
_MISSING = (
    "no project and no capture given",
    "`kc-validate ./isolated/KERNEL` checks what was rebuilt there; `kc-store ls` lists captures",
)


@app.command(
    epilog=epilog(
        "kc-validate ./isolated/scale        the rebuilt kernel there, byte for byte\n"
        "kc-validate @capture --variant new.hsaco --dtype fp32 --ulp 2"
    )
)
def validate(
    artifacts: ArtifactOrProjectArguments = None,
    variant: Annotated[
        Path | None,
        typer.Option(
            "--variant",
            "--hsaco",
            metavar="FILE",
            help="The rebuilt code object (CUDA: a cubin, PTX or a fatbin).",
        ),
    ] = None,
    baseline: Annotated[
        bool, typer.Option("--baseline", help="Check the captured kernel itself, whatever was rebuilt.")
    ] = False,
    tolerance: Annotated[
        float | None,
        typer.Option("--tolerance", "-t", metavar="X", min=0.0, help="Largest absolute error of an element."),
    ] = None,
    rtol: Annotated[
        float | None,
        typer.Option(
            metavar="X",
            min=0.0,
            help="Largest error relative to the golden element, plus --tolerance if that is given.",
        ),
    ] = None,
    ulp: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Largest distance in representable values (ULP).")
    ] = None,
    dtype: Annotated[
        str | None,
        typer.Option(
            metavar="TYPE",
            help="Type of all outputs, whatever the arguments say: fp64 fp32 fp16 bf16 fp8_... int32 ...",
        ),
    ] = None,
    runs: Annotated[
        int, typer.Option(metavar="N", min=1, help="Replays of the baseline that look for nondeterminism.")
    ] = 2,
    variant_runs: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            max=10**9,
            help="Runs of the variant from the captured pre-state, compared with each other; without it as "
            "many, up to 32, as a tenth of a second allows, and two at least.",
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Try the captured pre-state only.")] = False,
    report: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write a page with pictures of where outputs differ.")
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show outputs that pass too.")] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Replay again even if nothing has changed.")] = False,
    timeout: ReplayTimeoutOption = 300.0,
    store: StoreOption = None,
    json: JsonOption = False,
    version: VersionOption = False,  # noqa: ARG001 - the option acts by itself
) -> ExitCode:
    """Compare what a rebuilt kernel writes with what the captured one wrote in the program.

    Takes a project's folder, or a capture. In a project the variant is candidate.hsaco, else optimized.hsaco
    (CUDA: the same names in .cubin, else optimized.ptx). Without a variant the captured kernel itself is
    checked. Without a tolerance every byte must be the same.
    """
    from kerncap_stages.cli.artifacts import find_captures, list_for_user
    from kerncap_stages.manifests.view import read_view
    from kerncap_stages.pages.verdict import footer, lines
    from kerncap_stages.project.built import about_variant, unbuilt_edits
    from kerncap_stages.project.checkout import project_folder
    from kerncap_stages.project.variants import built_variant
    from kerncap_stages.store.remembered import remembered
    from kerncap_stages.validate.engine import judge_request
    from kerncap_stages.validate.request import checked_settings, read_request

    if baseline and variant is not None:
        raise UsageError(
            f"--baseline checks the captured kernel itself, and --variant {variant} another one",
            hint="leave one of the two out",
        )
    if report is not None and report.exists() and not report.is_dir():
        raise UsageError(f"{report} is no folder", hint="give a new or an empty folder to --report")
    settings = checked_settings(
        tolerance,
        rtol,
        ulp,
        dtype,
        timeout_s=timeout,
        baseline_runs=runs,
        variant_runs=variant_runs,
        perturb=not quick,
    )
    worst = ExitCode.DONE
    for text in artifact_texts(artifacts, missing=_MISSING):
        opened, digests = find_captures(store, text)
        folder = project_folder(Path(text))
        chosen = None if baseline else variant or built_variant(folder)
        if chosen is not None:
            for note in about_variant(folder, chosen):
                say(f"note: {printable(note)}")
        elif not baseline and (unbuilt := unbuilt_edits(folder)):
            raise UsageError(
                f"{', '.join(unbuilt)} was edited, and there is no code object built of it",
                hint=f"{_how_to_build(folder, unbuilt)}, or --baseline to check the captured kernel",
            )
        for number, digest in enumerate(digests):
            request = read_request(opened, digest, chosen, settings)
            known = None if fresh else remembered(opened, request.key)
            made, verdict = known or judge_request(opened, request, fresh=fresh)
            if report is not None:
                _write_report(opened, made, report, "" if len(digests) == 1 else str(number))
            if len(digests) > 1:
                say(f"{printable(read_view(opened, digest).kernel.demangled_name)}:")
            for line in lines(verdict, verbose=verbose):
                say(line)
            if (unlisted := list_for_user(opened, made, store)) is not None:
                say(f"note: {printable(unlisted)}")
            say(footer(verdict))
            emit(made, opened.get(made) if json else None)
            if not verdict.passed:
                worst = ExitCode.ANSWER_IS_NO
    return worst


def _how_to_build(folder: Path, edited: Sequence[str]) -> str:
    target = "assemble" if "kernel_variant.s" in edited else "recompile"
    if os.access(folder, os.W_OK):
        return f"`{shlex.join(['make', '-C', str(folder), target])}`"
    return f"copy the project to a folder that you may write to (cp -r) and `make {target}` there"


def main() -> None:
    """Run kc-validate."""
    run(app)


def _write_report(store: Store, digest: Digest, folder: Path, below: str) -> None:
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.codec import load_as
    from kerncap_stages.manifests.validation import Validation
    from kerncap_stages.pages.verdict_report import write_report

    manifest = load_as(store, digest, Validation)
    capture = load_as(store, manifest.capture.digest, Capture)
    page = write_report(manifest, capture.kernel.demangled_name, folder, below)
    say(f"report: {page}")
