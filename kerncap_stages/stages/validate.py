"""kc-validate: whether a rebuilt kernel does what the captured one did."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kerncap_stages import __version__
from kerncap_stages.console import emit, epilog, run, say
from kerncap_stages.errors import ExitCode
from kerncap_stages.inputs import artifact_texts
from kerncap_stages.options import (
    ArtifactOrProjectArguments,
    JsonOption,
    ReplayTimeoutOption,
    StoreOption,
    VersionOption,
    stage_app,
)

if TYPE_CHECKING:
    from kerncap_stages.digest import Digest
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.kernel import CodeObject
    from kerncap_stages.manifests.source import Unedited
    from kerncap_stages.manifests.validation import Validation
    from kerncap_stages.replaying.standby import Standbys
    from kerncap_stages.store import Store, Transaction
    from kerncap_stages.validation.judgement import Judgement
    from kerncap_stages.validation.request import Request
    from kerncap_stages.validation.runs import Baselines
    from kerncap_stages.validation.settings import Settings

app = stage_app()


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

    In a project's folder, candidate.hsaco or optimized.hsaco is taken as the variant if there is one; of CUDA
    the same as .cubin, or optimized.ptx. Without any variant the captured kernel itself is checked. Without a
    tolerance every byte must be the same.
    """
    from kerncap_stages.errors import UsageError
    from kerncap_stages.manifests.view import read_view
    from kerncap_stages.project.artifacts import find_captures, list_for_user
    from kerncap_stages.project.checkout import project_folder
    from kerncap_stages.project.variants import built_variant, edited_since, unbuilt_edits
    from kerncap_stages.remembered import remembered
    from kerncap_stages.terminal_text import printable
    from kerncap_stages.validation.printed import footer, lines
    from kerncap_stages.validation.request import read_request

    if baseline and variant is not None:
        raise UsageError(
            f"--baseline checks the captured kernel itself, and --variant {variant} another one",
            hint="leave one of the two out",
        )
    if report is not None and report.exists() and not report.is_dir():
        raise UsageError(f"{report} is no folder", hint="give a new or an empty folder to --report")
    settings = _settings(tolerance, rtol, ulp, dtype, timeout, runs, variant_runs, perturb=not quick)
    worst = ExitCode.DONE
    for text in artifact_texts(artifacts):
        opened, digests = find_captures(store, text)
        folder = project_folder(Path(text))
        chosen = None if baseline else variant or built_variant(folder)
        if chosen is not None:
            for name in edited_since(folder, chosen):
                say(f"note: {printable(name)} was edited after {chosen.name} was built: `make recompile`")
        elif not baseline and (unbuilt := unbuilt_edits(folder)):
            raise UsageError(
                f"{', '.join(unbuilt)} was edited, and there is no code object built of it",
                hint=f"{_how_to_build(folder)}, or --baseline to check the captured kernel",
            )
        for number, digest in enumerate(digests):
            request = read_request(opened, digest, chosen, settings)
            known = None if fresh else remembered(opened, request.key)
            made, verdict = known or _judged(opened, request, fresh=fresh)
            if report is not None:
                _write_report(opened, made, report, "" if len(digests) == 1 else str(number))
            if len(digests) > 1:
                say(f"{printable(read_view(opened, digest).kernel.demangled_name)}:")
            for line in lines(verdict, verbose=verbose):
                say(line)
            if (note := list_for_user(opened, made, store)) is not None:
                say(f"note: {printable(note)}")
            say(footer(verdict))
            emit(made, opened.get(made) if json else None)
            if not verdict.passed:
                worst = ExitCode.ANSWER_IS_NO
    return worst


def _how_to_build(folder: Path) -> str:
    if os.access(folder, os.W_OK):
        return "`make recompile`"
    return "copy the project to a folder that you may write to (cp -r) and `make recompile` there"


def main() -> None:
    """Run kc-validate."""
    run(app)


def run_validate(
    store: Store, capture_digest: Digest, variant: Path | None, settings: Settings, *, fresh: bool = False
) -> tuple[Digest, Validation]:
    """Judge a variant, or without one the baseline, and publish the verdict.

    Returns at once what an earlier run found for the same capture, variant, settings and machine, unless
    ``fresh``. Raises what keeps a replay from being run; a kernel that crashes or hangs is a failed verdict.
    """
    from kerncap_stages.manifests.validation import Validation
    from kerncap_stages.remembered import remembered_as
    from kerncap_stages.validation.request import read_request

    request = read_request(store, capture_digest, variant, settings)
    known = None if fresh else remembered_as(store, request.key, Validation)
    return known or _judged(store, request, fresh=fresh)


def _judged(store: Store, request: Request, *, fresh: bool) -> tuple[Digest, Validation]:
    from kerncap_stages.replaying.standby import Standbys
    from kerncap_stages.validation.settings import MOST_BYTES_AT_ONCE

    with Standbys(request.backend, request.device_index) as standbys:
        # They start while Python reads what follows, which takes as long. As many as there will be at once.
        standbys.start(1)
        if request.settings.perturb and request.code is not None and request.size_bytes <= MOST_BYTES_AT_ONCE:
            standbys.start(1)
            if fresh or store.actions.get(request.first_key) is None:
                standbys.start_for_later()
        return _judged_by(store, request, standbys, fresh=fresh)


def _judged_by(
    store: Store, request: Request, standbys: Standbys, *, fresh: bool
) -> tuple[Digest, Validation]:
    from kerncap_stages.errors import UsageError
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.codec import dump, load_as
    from kerncap_stages.manifests.source import Source
    from kerncap_stages.project.artifacts import unedited_of
    from kerncap_stages.validation.judge import Judge  # with numpy: only once there is something to judge
    from kerncap_stages.validation.runs import Baselines

    capture = load_as(store, request.capture, Capture)
    source = None if request.source is None else load_as(store, request.source, Source)
    settings = request.settings
    baselines = Baselines(
        store,
        capture,
        request.capture,
        request.machine,
        settings.timeout_s,
        fresh=fresh,
        standbys=standbys,
        gently=not settings.bounds.exact,
    )
    judgement = Judge(store, capture, source, settings, baselines).judge(request.variant)
    if request.variant is not None and request.variant.read_bytes() != request.code:
        raise UsageError(f"{request.variant} was changed while it was judged", hint="validate it again")
    with store.transaction() as transaction:
        described = None if request.code is None else _code_object(capture, request.code, transaction)
        unedited = None if described is None else unedited_of(store, request.capture)
        manifest = _manifest(capture, request.capture, described, unedited, settings, judgement, baselines)
        digest = transaction.publish(dump(manifest), "validation", [request.capture])
    store.actions.put(request.key, digest)
    if request.code is not None and settings.perturb:
        store.actions.put(request.first_key, digest)
    baselines.remember(digest)
    return digest, manifest


def _settings(
    tolerance: float | None,
    rtol: float | None,
    ulp: int | None,
    dtype: str | None,
    timeout: float,
    runs: int,
    variant_runs: int | None,
    *,
    perturb: bool,
) -> Settings:
    from kerncap_stages.bounds import ELEMENT_TYPES, checked_bounds
    from kerncap_stages.errors import UsageError
    from kerncap_stages.validation.settings import Settings

    if dtype is not None and dtype not in ELEMENT_TYPES:
        raise UsageError(f"unknown element type {dtype!r}", hint="one of " + " ".join(ELEMENT_TYPES))
    return Settings(
        bounds=checked_bounds(tolerance, rtol, ulp),
        default_type=dtype,
        timeout_s=timeout,
        baseline_runs=runs,
        perturb=perturb,
        variant_runs=variant_runs,
    )


def _write_report(store: Store, digest: Digest, folder: Path, below: str) -> None:
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.codec import load_as
    from kerncap_stages.manifests.validation import Validation
    from kerncap_stages.validation.pictures import write_report

    manifest = load_as(store, digest, Validation)
    capture = load_as(store, manifest.capture.digest, Capture)
    page = write_report(manifest, capture.kernel.demangled_name, folder, below)
    say(f"report: {page}")


def _code_object(capture: Capture, payload: bytes, transaction: Transaction) -> CodeObject:
    from kerncap_stages.digest import FileRef
    from kerncap_stages.replaying.variant import variant_code

    code = variant_code(payload, capture)
    update = {"payload": FileRef.to(transaction.put_bytes(code)), "size_bytes": len(code), "uri": None}
    return capture.kernel.code_object.model_copy(update=update)


def _manifest(
    capture: Capture,
    capture_digest: Digest,
    variant: CodeObject | None,
    unedited: Unedited | None,
    settings: Settings,
    judgement: Judgement,
    baselines: Baselines,
) -> Validation:
    from kerncap_stages.digest import ManifestRef
    from kerncap_stages.manifests.validation import Validation
    from kerncap_stages.validation.results import region_result, stray_write, tolerance

    environment = capture.environment.model_copy(
        update={"recorded_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
    )
    written = sum(region.written_size_bytes or 0 for region in capture.regions)
    verdicts = judgement.verdicts
    return Validation(
        parents=(ManifestRef.to(capture_digest),),
        made_by=f"kerncap-stages {__version__}",
        capture=ManifestRef.to(capture_digest),
        environment=environment,
        variant=variant,
        unedited=unedited,
        mode=judgement.mode,
        tolerance=tolerance(settings.bounds),
        coverage=judgement.coverage,
        passed=judgement.passed,
        reasons=tuple(judgement.reasons),
        regions=tuple(region_result(verdict) for verdict in verdicts),
        stray_writes=tuple(stray_write(verdict) for verdict in verdicts if verdict.found.stray_bytes),
        pre_states=judgement.pre_states,
        poisoned_size_bytes=judgement.poisoned_bytes,
        baseline_runs=judgement.baseline_runs,
        variant_runs=judgement.variant_runs,
        nondeterministic_share=min(1.0, judgement.nondeterministic_bytes / written) if written else 0.0,
        baselines=tuple({replay.key: replay for replay in baselines.kept}.values()),
    )
