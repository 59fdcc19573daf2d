"""Chooses what kc-run puts in the place of kernels, and checks that it fits."""

from __future__ import annotations

import hashlib
import shlex
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from kerncap_stages.cli.artifacts import find_captures
from kerncap_stages.cli.console import say
from kerncap_stages.cli.flows.known_verdicts import KnownVerdicts, find_known_verdicts
from kerncap_stages.code.host_files import describe_host_file
from kerncap_stages.code.offload_bundle import extract_code_object
from kerncap_stages.code.read import read_code_object
from kerncap_stages.collect import protocol
from kerncap_stages.collect.replacing import Replacement
from kerncap_stages.digest import Digest
from kerncap_stages.errors import ArtifactError, KerncapError, Refused, UsageError
from kerncap_stages.manifests import load_as, open_view
from kerncap_stages.manifests.capture import Capture
from kerncap_stages.manifests.environment import Backend
from kerncap_stages.project.artifacts import find_project
from kerncap_stages.project.built import require_current, warn_of_stale_variant
from kerncap_stages.project.folder import is_project
from kerncap_stages.project.variants import find_built_variant
from kerncap_stages.replay.in_program import require_fit, require_shape
from kerncap_stages.replay.program_variables import ConnectedCode, connect_code
from kerncap_stages.replay.record import find_other_shape
from kerncap_stages.replay.shared_variables import Connection, connect_variables
from kerncap_stages.replay.variant import WHAT_TO_GIVE, choose_target, extract_variant_code, read_variant
from kerncap_stages.replay.variant_shape import find_variant_shape
from kerncap_stages.store import Store
from kerncap_stages.text.kernel_names import shorten
from kerncap_stages.text.terminal import make_printable

if TYPE_CHECKING:
    from pathlib import Path

    from kerncap_stages.code.kernel_facts import KernelFacts
    from kerncap_stages.manifests import View
    from kerncap_stages.manifests.kernel import Kernel
    from kerncap_stages.replay.program_variables import ProgramVariable
    from kerncap_stages.replay.variant_shape import VariantShape

_TITLE_WIDTH = 80


@dataclass(frozen=True)
class ChosenVariant:
    """A variant of a captured kernel. ``number``: among those of one run.

    cases: captures of the kernel. A project may have several launches; what is said of one is of the first.
    code: the code object as it was built. connection, on CUDA connected: what connects it with the program's
    variables.
    """

    number: int
    store: Store
    cases: tuple[tuple[Digest, Capture], ...]
    path: Path
    code: bytes
    facts: KernelFacts
    shape: VariantShape | None
    connection: Connection
    connected: ConnectedCode

    @property
    def capture_digest(self) -> Digest:
        """The first capture's digest."""
        return self.cases[0][0]

    @property
    def capture(self) -> Capture:
        """The first capture."""
        return self.cases[0][1]

    @property
    def name(self) -> str:
        """The kernel's demangled name."""
        return self.capture.kernel.demangled_name

    @property
    def title(self) -> str:
        """The kernel's name for messages: those of templates may have thousands of characters."""
        return shorten(self.name, _TITLE_WIDTH)

    @property
    def symbol(self) -> str:
        """The captured kernel's symbol."""
        return self.capture.kernel.mangled_name

    @property
    def variant_digest(self) -> str:
        """SHA-256 of the variant's code object."""
        return hashlib.sha256(self.code).hexdigest()

    @cached_property
    def verdicts(self) -> KnownVerdicts:
        """The verdicts on this code; of several launches, those of one in which the newest is FAIL.

        Else those of one in which an earlier one is FAIL, else of the first that has a verdict.
        """
        code = Digest(self.variant_digest)
        best = KnownVerdicts()
        for digest, made in self.cases:
            shape = find_other_shape(self.shape, made.launch)
            known = find_known_verdicts(self.store, digest, code, shape)
            if known.failed is not None and known.failed is known.newest:
                return known
            if best.newest is None or (best.failed is None and known.failed is not None):
                best = known
        return best


def choose_variants(
    store_folder: Path | None, given: Path, *, kernel: str | None, capture: str | None
) -> list[ChosenVariant]:
    """Choose the captured kernels that are replaced, and check that the variant can take their place.

    given: a project's folder, or a code object. kernel: a part of the kernel's name.
    Raises UsageError for a project without a variant or a name that no kernel has, Refused for a variant that
    does not fit or is older than its sources, ArtifactError if there is no capture.
    """
    path, folder = _find_variant(given)
    if capture is not None:
        store, digests = find_captures(store_folder, capture)
    elif folder is not None:
        store, digests = find_captures(store_folder, str(folder))
    else:
        store = Store.open(store_folder, create=False)
        digests = _find_latest(store, path, kernel)
    captures = [(digest, load_as(store, digest, Capture)) for digest in digests]
    chosen = [each for each in captures if _is_named(each[1].kernel, kernel)]
    if not chosen:
        names = ", ".join(dict.fromkeys(made.kernel.demangled_name for _, made in captures))
        raise UsageError(f"--kernel {kernel}: no such kernel was captured", hint=f"there are: {names}")
    launches: dict[str, list[tuple[Digest, Capture]]] = {}  # of each kernel
    for each in chosen:
        launches.setdefault(each[1].kernel.mangled_name, []).append(each)
    return [_read(number, store, tuple(cases), path) for number, cases in enumerate(launches.values())]


def _find_variant(given: Path) -> tuple[Path, Path | None]:
    """Find the code object, and the project's folder that holds it if one does."""
    if given.is_file():
        _require_code(given)
        holds = find_project(f"{given.absolute().parent}/") is not None
        return given, given.absolute().parent if holds else None
    if not given.exists():
        raise UsageError(f"--variant {given}: there is no such file or folder", hint="check its path")
    project = find_project(f"{given}/") if given.is_dir() else None
    if project is None:
        raise UsageError(
            f"--variant {given} is neither a project nor a code object",
            hint="give the folder that kc-generate made, or a code object",
        )
    built = find_built_variant(project.folder)
    if built is None:
        raise UsageError(f"nothing was built in {given}", hint=f"`make -C {given} recompile`")
    require_current(project.folder, built)
    for note in warn_of_stale_variant(project.folder, built):
        say(f"note: {make_printable(note)}")
    return built, project.folder


def _require_code(path: Path) -> None:
    """Raise UsageError for a file that is not code for a GPU, such as the program or a source."""
    what = describe_host_file(path) if path.stat().st_size else "an empty file"
    if what is None:
        return
    give = "give the folder that kc-generate made"
    folder = path.parent
    if is_project(folder):
        give = f"`make -C {shlex.quote(str(folder))} recompile`, and give {folder}"
    raise UsageError(
        f"--variant {path} is {what}, not a code object",
        hint=f"{give}; or give {WHAT_TO_GIVE[Backend.HSA]}; CUDA: {WHAT_TO_GIVE[Backend.CUDA]}. "
        "The program that runs goes behind `--`",
    )


def _is_named(kernel: Kernel | View, name: str | None) -> bool:
    return name is None or name in kernel.demangled_name or name == kernel.mangled_name


def _find_latest(store: Store, path: Path, kernel: str | None) -> tuple[Digest, ...]:
    """Find the latest capture of a kernel that a code object has."""
    data = path.read_bytes()
    for entry in store.list_artifacts("capture"):
        try:
            with open_view(store, entry.digest) as made:
                if not _is_named(made.kernel, kernel):
                    continue
                symbol, name = str(made.kernel.mangled_name), str(made.kernel.demangled_name)
                isa = choose_target(made)
            has_it = read_code_object(extract_code_object(data, isa)).find_kernel(symbol) is not None
        except KerncapError:
            continue  # of another GPU, or of another version of this package
        if has_it:
            title = make_printable(shorten(name, _TITLE_WIDTH))
            say(f"kc-run: replaces {title}, as in capture {entry.digest.short}")
            return (entry.digest,)
    raise ArtifactError(
        f"the store has no capture of a kernel that {path} has",
        hint="name the capture with --capture, or capture the kernel: `kc-capture --kernel NAME -- ./app`",
    )


def _read(number: int, store: Store, cases: tuple[tuple[Digest, Capture], ...], path: Path) -> ChosenVariant:
    capture = cases[0][1]
    facts = read_variant(path, capture)
    code = extract_variant_code(path.read_bytes(), capture)
    shape = find_variant_shape(path)
    require_shape(path, capture, facts, shape)
    connection, connected = Connection((), (), ()), ConnectedCode(code)
    if capture.environment.backend is Backend.CUDA:
        connected = connect_code(store, capture, code)
    else:
        connection = connect_variables(code, bytes(store.get(capture.code_digest)))
    require_fit(path, capture, facts, (*connection.unconnected, *connected.unconnected))
    for note in connected.notes:
        say(f"kc-run: {make_printable(note)}")
    return ChosenVariant(number, store, cases, path, code, facts, shape, connection, connected)


def write_files(variant: ChosenVariant, folder: Path, *, any_code: bool) -> Replacement:
    """Write the files that the program's processes read, and say how the kernel is replaced."""
    if any_code and variant.connection.names:
        raise Refused(
            f"{variant.path} uses variables of the program: {', '.join(variant.connection.names)}; where "
            "they are is known in the captured code object alone",
            hint="leave out --any-code, and capture the kernel of the program that you run",
        )
    folder.mkdir()
    (folder / "variant.co").write_bytes(variant.connected.data)
    captured = folder / "captured.co"
    captured.write_bytes(variant.store.get(variant.capture.code_digest))
    launch, shape = variant.capture.launch, variant.shape
    own = None
    if shape is not None:
        grid, block, lds_bytes = shape.resolve(launch)
        x, y, z = (-(-items // size) for items, size in zip(grid, block, strict=True))
        own = ((x, y, z), block, lds_bytes)
        if (grid, block) == (launch.grid_work_items, launch.block_work_items):
            own = ((0, 0, 0), (0, 0, 0), lds_bytes)
    return Replacement(
        symbol=variant.symbol,
        variant=str(folder / "variant.co"),
        variant_symbol=variant.facts.symbol,
        captured=None if any_code else str(captured),
        max_block_work_items=variant.facts.max_work_group_size,
        required_block=variant.facts.required_work_group_size,
        grid_blocks=None if own is None else launch.grid_blocks,
        block_work_items=None if own is None else launch.block_work_items,
        launch=own,
        patches=tuple(
            protocol.Patch(each.at, each.word, each.low, each.high, each.target)
            for each in variant.connection.patches
        ),
        variables=tuple(_make_message(each) for each in variant.connected.variables),
    )


def _make_message(variable: ProgramVariable) -> protocol.ProgramVariable:
    return protocol.ProgramVariable(
        rule=0,  # set when it is sent
        name=variable.name,
        variant_name=variable.variant_name,
        size_bytes=variable.size_bytes,
        flags=protocol.VariableFlag.IS_CONST if variable.is_const else protocol.VariableFlag(0),
        words=tuple(
            protocol.AddressWord(word.place, protocol.WordPart[word.part.name], word.addend)
            for word in variable.words
        ),
    )
