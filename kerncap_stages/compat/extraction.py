"""profile, capture, locate, generate and a smoke validation, one after the other.

Each stage is called through its typed function and publishes its own artifact. If a step cannot do all of its
work, it notes why, and the next step continues with what there is.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.collect.capture import CaptureOptions, run_capture
from kerncap_stages.collect.capture_request import describe_main_shape, find_ranked, read_program
from kerncap_stages.collect.profile import ProfileOptions, run_profile
from kerncap_stages.collect.program import ProgramSpec
from kerncap_stages.collect.ranking import (
    NONE_OF_THE_PROGRAM,
    choose_name,
    find_main_shape,
    has_shape,
    is_of_the_program,
    list_program_kernels,
)
from kerncap_stages.collect.selection import KernelRule, find_close_names
from kerncap_stages.compat.conversion import extract_result
from kerncap_stages.compat.steps import (
    CAPTURE,
    GENERATE,
    LOCATE,
    PROFILE,
    VALIDATE,
    Extraction,
    ExtractRequest,
    Steps,
)
from kerncap_stages.errors import AnswerIsNo, KerncapError, UsageError
from kerncap_stages.generate.engine import run_generate
from kerncap_stages.locate.databases import find_named_database
from kerncap_stages.locate.locating import run_locate
from kerncap_stages.locate.options import Options, check_macros, check_source_folders
from kerncap_stages.manifests import load_as
from kerncap_stages.manifests.capture import NameMatch, Selection
from kerncap_stages.manifests.os_strings import to_os_string
from kerncap_stages.manifests.profile import Profile
from kerncap_stages.pages.verdict import format_footer
from kerncap_stages.project.checkout import check_out
from kerncap_stages.project.default_folder import make_folder_name
from kerncap_stages.project.folder import count_captures, is_project
from kerncap_stages.store import Store
from kerncap_stages.text import formats
from kerncap_stages.text.formats import count, describe_same_instructions
from kerncap_stages.text.kernel_names import shorten
from kerncap_stages.validate.engine import run_validate
from kerncap_stages.validate.request import JudgeSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kerncap_stages.compat.results import ExtractResult
    from kerncap_stages.compat.steps import Step
    from kerncap_stages.digest import Digest
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.profile import KernelStatistics
    from kerncap_stages.manifests.reproducer import Reproducer
    from kerncap_stages.manifests.source import Source
    from kerncap_stages.manifests.validation import Validation

_NO_SOURCE = "the project can be replayed, but not rebuilt from source"
_MAX_OTHERS = 3  # kernels of which the name that was given is also true
_NAME_WIDTH = 160  # of a kernel in a line for people; names of templates have thousands of characters


def run_extract(store: Store, request: ExtractRequest) -> Extraction:
    """Run every step and check the project out into its folder.

    Raises UsageError before anything runs, and what profiling and capturing raise. If the source is not
    found, or the validation cannot run, the result says so.
    """
    _check(request)
    steps = Steps(request)
    spec, selection, parents = _choose(store, request, steps)
    capture_digest, capture = _capture(store, request, spec, selection, parents, steps)
    source_digest, source = _locate(store, request, capture_digest, steps)
    folder, reproducer = _generate(store, request, source_digest or capture_digest, capture, steps)
    validation, failure = _validate(store, capture_digest, request, steps)
    return Extraction(tuple(steps.done), folder, capture, source, reproducer, validation, failure)


def _check(request: ExtractRequest) -> None:
    """Refuse wrong arguments before the program runs, not after it."""
    check_source_folders(request.source_dirs)
    check_macros(request.defines)
    if request.compile_commands is not None:
        find_named_database(request.compile_commands)
    if request.output is not None:
        _check_output(request.output, force=request.force)
    if request.spec is None and request.profile is None:
        raise UsageError("no program given", hint="put its command after `--`: kc-extract -- ./app")


def _check_output(folder: Path, *, force: bool) -> None:
    nearest = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not nearest.is_dir():
        raise UsageError(f"{nearest} is a file", hint="give a new or an empty folder")
    if folder.is_dir() and any(folder.iterdir()) and not is_project(folder):
        raise UsageError(
            f"{folder} exists and is not a generated project", hint="give a new or an empty folder"
        )
    held = count_captures(folder)
    if held > 1 and not force:
        raise UsageError(
            f"{folder} has a project of {held} captures, and kc-extract takes one",
            hint="give another folder with --output, or overwrite the project with --force",
        )


def _choose(
    store: Store, request: ExtractRequest, steps: Steps
) -> tuple[ProgramSpec, Selection, tuple[Digest, ...]]:
    """Choose the program and the dispatch. Makes or reads a profile to find the kernel."""
    named = Selection(
        match=request.match or NameMatch.SUBSTRING,
        pattern=request.kernel,
        dispatch=request.dispatch or 0,
        grid_blocks=request.grid_blocks,
        block_work_items=request.block_work_items,
    )
    steps.start(PROFILE)
    notes: list[str] = []
    spec, digest = request.spec, request.profile
    if digest is not None:
        profile = load_as(store, digest, Profile)
        spec = spec or read_program(digest, profile, "kc-extract --kernel NAME -- ./app")
    elif request.kernel is not None and not request.profile_first and spec is not None:
        steps.end(PROFILE, None, f"not needed: the first dispatch that matches {request.kernel!r} is taken")
        return spec, named, ()
    else:
        assert spec is not None  # _check
        try:
            digest, profile = run_profile(store, spec, ProfileOptions(request.timeout_s, notes.append))
        except KeyboardInterrupt:
            steps.end(PROFILE, None, "interrupted", *notes)
            raise
    assert spec is not None
    selection = _choose_top(profile, named, digest, request.rank)
    kernels = count(len(profile.kernels), "kernel")
    summary = f"{kernels}; {selection.pattern}"
    chosen = next((k for k in profile.kernels if selection.pattern in (k.mangled_name, k.name)), None)
    if chosen is not None:
        is_default = named.pattern is None and request.rank is None
        if is_default and not is_of_the_program(chosen):
            notes.append(NONE_OF_THE_PROGRAM)
        elif is_default and chosen is not profile.kernels[0]:
            notes.append(f"passed over {profile.kernels[0].name}, which is the runtime's own")
        notes += _list_other_matches(profile, named, chosen)
        shape = find_main_shape(chosen, profile.time_source)
        asks_for_shape = request.grid_blocks is not None or request.block_work_items is not None
        asks_for_shape = asks_for_shape or bool(request.configuration)  # another one's shape may be another
        if request.dispatch is None and shape is not None and not asks_for_shape:
            notes.append(describe_main_shape(chosen, shape))
            launch = {"grid_blocks": shape.grid_blocks, "block_work_items": shape.block_work_items}
            selection = selection.model_copy(update=launch)
        summary = f"{kernels}; {shorten(chosen.name, _NAME_WIDTH)} takes {chosen.share:.1%} of the GPU time"
    steps.end(PROFILE, digest, summary, *notes)
    return spec, selection, (digest,)


def _list_other_matches(profile: Profile, named: Selection, chosen: KernelStatistics) -> Iterator[str]:
    """Yield a note about the kernels that also have the name that was given."""
    if named.pattern is None:
        return
    rule = KernelRule.from_selection(named)
    found = [each for each in profile.kernels if rule.wants(each.mangled_name or "", each.name)]
    others = [shorten(each.name, _NAME_WIDTH) for each in found if each is not chosen]
    if others:
        listed = formats.list_first(others, _MAX_OTHERS)
        yield f"{len(found)} kernels match {named.pattern!r}; the others: {listed}"


def _choose_top(profile: Profile, named: Selection, digest: Digest, rank: int | None) -> Selection:
    """Choose the kernel of a rank, or the one that takes most time of those that match."""
    rule = KernelRule.from_selection(named) if named.pattern is not None else None
    # Kernels are in order of their time. HIP's own copies and fills are chosen only by name.
    kernels = list_program_kernels(profile.kernels) if rule is None else profile.kernels
    for kernel in kernels if rank is None else [find_ranked(digest, profile, rank)]:
        is_wanted = rule is None or rule.wants(kernel.mangled_name or "", kernel.name)
        if is_wanted and has_shape(kernel, named.grid_blocks, named.block_work_items):
            pattern, match = choose_name(kernel)
            return named.model_copy(update={"match": match, "pattern": pattern})
    if named.grid_blocks is not None or named.block_work_items is not None:
        raise AnswerIsNo(
            f"no matching kernel in profile {digest.short} was launched in this shape",
            hint=f"`kc-show {digest.short}` lists the launch shapes",
        )
    close = find_close_names(named.pattern or "", [kernel.name for kernel in profile.kernels])
    raise AnswerIsNo(
        f"no kernel in profile {digest.short} matches {named.pattern!r}",
        hint="similar names: " + ", ".join(close) if close else f"`kc-show {digest.short}` lists the kernels",
    )


def _capture(
    store: Store,
    request: ExtractRequest,
    spec: ProgramSpec,
    selection: Selection,
    parents: tuple[Digest, ...],
    steps: Steps,
) -> tuple[Digest, Capture]:
    steps.start(CAPTURE)
    notes: list[str] = []
    options = CaptureOptions(
        selections=(selection,),
        parents=parents,
        with_post=request.with_post,
        with_trials=request.with_trials,
        configuration=request.configuration,
        reachable_only=request.reachable_only,
        hold=request.hold,
        wait_s=request.wait_s,
        memory_bytes=request.memory_bytes,
        stop_after=request.stop_after,
        timeout_s=request.timeout_s,
        warn=notes.append,
        progress=request.on_copied,
    )
    try:
        made = list(run_capture(store, spec, options))
    except KeyboardInterrupt:
        steps.end(CAPTURE, None, "interrupted", *notes)
        raise
    digest, capture = made[0]
    if len(made) > 1:
        others = ", ".join(other.short for other, _ in made[1:])
        notes.append(
            f"{len(made)} processes dispatched the kernel; this capture is the first one's; captures of the "
            f"others: {others}"
        )
    size = formats.format_size(capture.size_bytes)
    summary = f"{shorten(capture.kernel.demangled_name, _NAME_WIDTH)}: {size}"
    if capture.has_post:
        written = sum(region.written_size_bytes or 0 for region in capture.regions)
        summary += f", {formats.format_size(written)} changed"
    steps.end(CAPTURE, digest, summary, *notes)
    return digest, capture


def _locate(
    store: Store, request: ExtractRequest, capture: Digest, steps: Steps
) -> tuple[Digest | None, Source | None]:
    steps.start(LOCATE)
    options = Options(request.source_dirs, request.compile_commands, request.defines, request.compiler)
    try:
        digest, source = run_locate(store, capture, options, fresh=request.fresh)
    except KerncapError as error:
        steps.end(LOCATE, None, f"failed: {_NO_SOURCE}", str(error))
        return None, None
    if source.definition is None:
        summary = f"{source.outcome.value.replace('_', ' ')}: {_NO_SOURCE}"
        steps.end(LOCATE, digest, summary, source.explanation or "")
    else:
        place = f"{to_os_string(source.definition.path)}:{source.definition.line}"
        same = (
            ""
            if source.unedited is None
            else f"same instructions: {describe_same_instructions(source.unedited)}"
        )
        notes = [source.explanation or ""]
        if source.unedited is not None and source.unedited.same_instructions:
            place += f", {same}"
        else:
            notes.append(same)
        steps.end(LOCATE, digest, place, *notes)
    return digest, source


def _generate(
    store: Store, request: ExtractRequest, digest: Digest, capture: Capture, steps: Steps
) -> tuple[Path, Reproducer]:
    steps.start(GENERATE)
    made, reproducer = run_generate(store, digest, fresh=request.fresh)
    folder = request.output or Path("isolated") / make_folder_name(capture.kernel.demangled_name)
    _check_output(folder, force=request.force)
    checkout = check_out(store, made, reproducer, folder, force=request.force)
    steps.end(GENERATE, made, f"project in {folder}", *checkout.notes)
    return folder, reproducer


def _validate(
    store: Store, capture: Digest, request: ExtractRequest, steps: Steps
) -> tuple[Validation | None, KerncapError | None]:
    """Replay the captured kernel and compare its results with those in the program."""
    steps.start(VALIDATE)
    if not request.validate:
        steps.end(VALIDATE, None, "not asked for")
        return None, None
    try:
        digest, validation = run_validate(store, capture, None, JudgeSettings(), fresh=request.fresh)
    except KerncapError as error:
        steps.end(VALIDATE, None, "could not be replayed here", str(error))
        return None, error
    steps.end(VALIDATE, digest, format_footer(validation), *validation.reasons)
    return validation, None


def extract_kernel(
    store_folder: Path | None,
    program: tuple[str, ...],
    kernel_name: str,
    dispatch: int,
    *,
    output: Path | None,
    source_dirs: tuple[Path, ...],
    defines: tuple[str, ...],
    language: str | None,
    timeout_s: float | None,
    force: bool,
    on_step: Callable[[Step], None],
) -> ExtractResult:
    """Do what ``Kerncap.extract`` does: no profile, and the program ends once the dispatch is captured."""
    request = ExtractRequest(
        spec=ProgramSpec(program),
        profile_first=False,
        kernel=kernel_name,
        dispatch=dispatch,
        output=output if output is not None else Path("isolated") / make_folder_name(kernel_name),
        force=force,
        source_dirs=source_dirs,
        defines=defines,
        stop_after=True,
        timeout_s=timeout_s,
        on_step=on_step,
    )
    return extract_result(run_extract(Store.open(store_folder), request), language)
