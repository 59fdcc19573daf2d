"""What kc-generate does: locate a capture's source, make its project, and write the project to a folder."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kerncap_stages.cli.console import emit, say
from kerncap_stages.cli.flows.locate import locate_source
from kerncap_stages.cli.inputs import read_artifact_texts
from kerncap_stages.errors import ArtifactNotFound, KerncapError, UsageError
from kerncap_stages.generate.request import make_project_key
from kerncap_stages.locate.known_source import find_removed_source, summarise_source
from kerncap_stages.locate.options import Options
from kerncap_stages.manifests import View, open_view
from kerncap_stages.project.artifacts import find_capture_of, find_kernel_name, read_code
from kerncap_stages.project.cases import find_group, find_own_capture
from kerncap_stages.project.checkout import check_out, find_checkout
from kerncap_stages.project.default_folder import choose_default_folder
from kerncap_stages.project.variants import find_edited_instructions
from kerncap_stages.store import Store
from kerncap_stages.store.remembered import find_remembered
from kerncap_stages.text.formats import list_first
from kerncap_stages.text.terminal import make_printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from kerncap_stages.digest import Digest
    from kerncap_stages.manifests.reproducer import Reproducer
    from kerncap_stages.project.checkout import Checkout

_MAX_SHOWN = 8  # captures that a message lists


@dataclass(frozen=True)
class GenerateArguments:
    """How to make projects. ``assembly``: for editing instructions. ``force``: overwrite edited files.

    held_out: captures that no project's folder may hold.
    """

    options: Options
    assembly: bool
    force: bool
    fresh: bool
    held_out: tuple[Digest, ...]


def generate_projects(
    store_folder: Path | None,
    artifacts: Sequence[str] | None,
    output: Path | None,
    *,
    source_dirs: Sequence[Path],
    held_out: Sequence[str],
    together: bool,
    assembly: bool,
    force: bool,
    fresh: bool,
    as_json: bool,
) -> None:
    """Write a project for each kernel, or one for all (``together``); print the reproducers' digests."""
    store = Store.open(store_folder)
    if assembly and source_dirs:
        raise UsageError("--assembly needs no source", hint="leave out --source-dir")
    hidden = tuple(find_capture_of(store, store.resolve(text)) for text in held_out)
    arguments = GenerateArguments(Options(tuple(source_dirs)), assembly, force, fresh, hidden)
    resolved = _take_once(store, (store.resolve(text) for text in read_artifact_texts(artifacts)))
    given = (
        _leave_out(store, list(resolved), dict(zip(held_out, hidden, strict=True))) if held_out else resolved
    )
    projects: dict[tuple[str, str], list[Digest]] = {}
    for count, inputs in enumerate(_group(store, given, together=together)):
        place = output.with_name(f"{output.name}-{count + 1}") if output is not None and count > 0 else output
        if not assembly:
            inputs = _locate_captures(store, inputs, arguments)
        found = _find_in_place(store, inputs, place, arguments)
        digest, made, checkout = found or _write(store, inputs, place, arguments)
        _report(checkout, made)
        emit(digest, store.get(digest) if as_json else None)
        first = find_own_capture(store, inputs[0])
        projects.setdefault(read_code(store, first), []).append(first)
    for made_of in projects.values():
        if len(made_of) > 1:
            name = make_printable(find_kernel_name(store, made_of[0]))
            say(f"{len(made_of)} projects of one kernel, {name}: --together makes one project of them")


def _take_once(store: Store, given: Iterable[Digest]) -> Iterator[Digest]:
    """Yield artifacts as they come, but none of a capture that was given before."""
    seen = set()
    for digest in given:
        capture = find_own_capture(store, digest)
        if capture in seen:
            say(f"{capture.short} is given twice, and taken once")
        else:
            seen.add(capture)
            yield digest


def _leave_out(store: Store, given: Sequence[Digest], left_out: Mapping[str, Digest]) -> list[Digest]:
    """Return the artifacts without those of captures that are held out, each under its given name."""
    captures = {digest: find_capture_of(store, digest) for digest in given}
    for text, capture in left_out.items():
        if capture not in captures.values():
            shown = [each.short for each in captures.values()]
            raise UsageError(
                f"--held-out {make_printable(text)} is none of the given captures: "
                + list_first(shown, _MAX_SHOWN),
                hint="give all captures of the kernel, and name with --held-out those to leave out",
            )
    rest = [digest for digest in given if captures[digest] not in left_out.values()]
    if not rest:
        raise UsageError("--held-out leaves nothing for the project", hint="hold fewer captures out")
    return rest


def _group(store: Store, given: Iterable[Digest], *, together: bool) -> Iterator[list[Digest]]:
    """Yield the artifacts of one project at a time: a single artifact, the cases of a kernel, or all.

    A single one is yielded as the pipe delivers it. Cases of several kernels may come by turns.
    """
    if together:
        yield list(given)
        return
    groups: dict[tuple[str, ...], list[Digest]] = {}
    for digest in given:
        key = find_group(store, digest)
        if key == (digest,):
            yield [digest]
        else:
            groups.setdefault(key, []).append(digest)
    yield from groups.values()


def _locate_captures(store: Store, given: Sequence[Digest], arguments: GenerateArguments) -> list[Digest]:
    """Locate the sources of captures; of the cases of a kernel, that of the first."""
    are_cases = len(given) > 1 and len({find_group(store, each) for each in given}) == 1
    first, *others = given
    located = _locate_capture(store, first, arguments)
    return [located, *(others if are_cases else (_locate_capture(store, each, arguments) for each in others))]


def _locate_capture(store: Store, digest: Digest, arguments: GenerateArguments) -> Digest:
    """Locate the source of a capture and return the source artifact; return any other artifact as it is.

    Raises UsageError if a given folder is none, or if folders are given for another kind of artifact.
    """
    with open_view(store, digest) as given:
        is_capture = given.kind == "capture"
    if not is_capture:
        if arguments.options.source_dirs:
            raise UsageError(
                f"--source-dir is for captures, and {digest.short} is not a capture",
                hint="kc-locate @capture --source-dir DIR | kc-generate",
            )
        return digest
    try:
        located, made = locate_source(store, digest, arguments.options, fresh=arguments.fresh)
    except UsageError:
        raise
    except KerncapError as error:
        say(f"the source could not be located: {make_printable(str(error))}")
        return digest
    say(summarise_source(made))
    removed = None if made.definition is not None else find_removed_source(store, digest)
    if removed is not None:
        earlier, path = removed
        raise ArtifactNotFound(
            f"the source of {digest.short} was in {make_printable(path)}, which has been removed",
            hint=f"restore the file, or use its stored copy: `kc-generate {earlier.short}`; "
            "with --assembly, the project has instructions instead",
        )
    return located


def _find_in_place(
    store: Store, inputs: Sequence[Digest], place: Path | None, arguments: GenerateArguments
) -> tuple[Digest, View, Checkout] | None:
    """Find the project of these inputs if its folder already holds it. Does not import the models."""
    known = (
        None
        if arguments.fresh
        else find_remembered(store, make_project_key(store, inputs, assembly=arguments.assembly))
    )
    if known is None:
        return None
    folder = place or choose_default_folder(known.made)
    checkout = find_checkout(
        known.digest, known.made, folder, force=arguments.force, held_out=arguments.held_out
    )
    return None if checkout is None else (known.digest, known.made, checkout)


def _write(
    store: Store, inputs: Sequence[Digest], place: Path | None, arguments: GenerateArguments
) -> tuple[Digest, Reproducer, Checkout]:
    # The models and the templates are not needed if the project is already in its folder.
    from kerncap_stages.generate.engine import run_generate

    digest, made = run_generate(store, *inputs, assembly=arguments.assembly, fresh=arguments.fresh)
    folder = place or choose_default_folder(made)
    checkout = check_out(store, digest, made, folder, force=arguments.force, held_out=arguments.held_out)
    return digest, made, checkout


def _report(checkout: Checkout, reproducer: Reproducer | View) -> None:
    folder = make_printable(shlex.quote(str(checkout.folder)))
    say(f"project in {folder}: `make -C {folder} help`")
    edited = find_edited_instructions(file.path for file in reproducer.files)
    lead = (
        f"edit {edited}, which `make assemble` rebuilds: the source is not in the project"
        if edited
        else "cannot be rebuilt"
    )
    for missing in reproducer.missing:
        say(f"  {lead}: {make_printable(missing)}")
    for note in checkout.notes:
        say(f"  {note}")
