"""Searches the PTX of a kernel without source: in files, programs and libraries."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.code.cubin import find_embedded_ptx, find_kernel_code
from kerncap_stages.code.file_format import strip_comments
from kerncap_stages.code.kernel_facts import is_same_but_for_unit
from kerncap_stages.code.ptx import find_entry_lines
from kerncap_stages.compilers.consulted import walk_source_folders
from kerncap_stages.compilers.cuda_tools import find_cuda_tool
from kerncap_stages.compilers.program_file import find_program_file
from kerncap_stages.errors import DeviceError
from kerncap_stages.machine.run_tool import run_tool
from kerncap_stages.machine.temporary import TemporaryFolder
from kerncap_stages.manifests.source import Unedited

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kerncap_stages.compilers.captured_code import CapturedCode
    from kerncap_stages.compilers.consulted import Consulted
    from kerncap_stages.manifests.capture import Capture

_TARGET = re.compile(rb"^[ \t]*\.target[ \t]+sm_(\d+)", re.MULTILINE)
_MAX_COMPARED = 16


@dataclass(frozen=True)
class Ptx:
    """PTX of a kernel.

    path: the file, or the program with cuobjdump's name of the part.
    line: of the entry, from 1.
    """

    path: Path
    text: bytes
    line: int


@dataclass(frozen=True)
class PtxSearch:
    """The PTX that was chosen, or the ``problem``. ``note``: about the PTX; it continues a sentence."""

    found: Ptx | None
    problem: str = ""
    note: str = ""
    unedited: Unedited | None = None


def find_ptx(capture: Capture, code: CapturedCode, roots: Sequence[Path], consulted: Consulted) -> PtxSearch:
    """Find the PTX of the captured kernel.

    PTX that the program passed to its driver is used if there is any. Else the PTX is searched in ``.ptx``
    files below ``roots``, in programs and libraries that ``roots`` names, in the program itself, and in the
    cubin's line information, which repeats the PTX that the cubin was made from. Several texts may fit, for
    instance of a kernel that was compiled for several shapes. Then the choice is: the file with the same PTX
    as the line information; else the PTX from which ptxas makes the captured instructions; else the line
    information's, because this ptxas may be another version.
    """
    kernel = capture.kernel
    symbol, isa = kernel.mangled_name, kernel.code_object.isa
    captured = find_kernel_code(code.code_object, symbol)
    program = find_program_file(capture) or Path("/program")
    if code.ptx:
        path = program.with_name(f"{program.name}:handed-to-the-driver.ptx")
        options = _filter_fitting(((path, text) for text in code.ptx), symbol, isa)
        repeated = options[0] if options else None
    else:
        own = find_embedded_ptx(code.code_object)
        made_of = [(program.with_name(f"{program.name}:line-information.ptx"), own)] if own else []
        options = _filter_fitting((*_read_texts(capture, roots, consulted), *made_of), symbol, isa)
        repeated = next((each for each in options if each.text == own), None)
        if repeated is not None:
            bare = _strip(repeated.text)
            files = [each for each in options if each is not repeated and _strip(each.text) == bare]
            options = files[:1] or options
    if len(options) > 1:
        some = options[:_MAX_COMPARED] if captured is not None else []
        same = [each for each in some if _assemble(each, isa, symbol) == captured]
        options = same[:1] or ([repeated] if repeated else options)
    if len(options) == 1:
        note, unedited = _compare(options[0], isa, symbol, captured)
        return PtxSearch(options[0], note=note, unedited=unedited)
    if options:
        return PtxSearch(
            None, f"{len(options)} PTX files contain the kernel, but none gives the captured instructions"
        )
    without = "" if find_cuda_tool("cuobjdump") else " (programs were not searched: there is no cuobjdump)"
    return PtxSearch(None, f"no PTX of the kernel was found{without}")


def _filter_fitting(texts: Iterable[tuple[Path, bytes]], symbol: str, isa: str) -> list[Ptx]:
    """Keep the texts that have the kernel and can be compiled for the GPU, each text once."""
    number = int(re.sub(r"\D", "", isa) or 0)
    fitting: dict[bytes, Ptx] = {}
    for path, text in texts:
        target = _TARGET.search(text)
        if target is None or int(target[1]) > number:
            continue
        for entry, line in find_entry_lines(text).items():
            if is_same_but_for_unit(entry, symbol):
                fitting.setdefault(text, Ptx(path, text, line))
    return list(fitting.values())


def _compare(ptx: Ptx, isa: str, symbol: str, captured: bytes | None) -> tuple[str, Unedited]:
    """Compare the PTX with the captured instructions; returns a note for the explanation, and the result."""
    if captured is None:
        return "", Unedited(same_instructions=None, why="the capture holds no machine code of the kernel")
    if find_cuda_tool("ptxas") is None:
        return "", Unedited(same_instructions=None, why="there is no ptxas")
    made = _assemble(ptx, isa, symbol)
    if made is None:
        alone = "which ptxas does not assemble alone: it may need code that was linked to it"
        return f", {alone}", Unedited(same_instructions=None, why=f"the source is PTX, {alone}")
    if made != captured:
        other = "this ptxas gives instructions that differ from the captured ones"
        return f", but {other}", Unedited(same_instructions=False, why=other)
    return "", Unedited(same_instructions=True)


def _strip(text: bytes) -> str:
    """Strip comments and white space from PTX: line information has neither comments nor indentation."""
    return "".join(strip_comments(text).split())


def _read_texts(
    capture: Capture, roots: Sequence[Path], consulted: Consulted
) -> Iterator[tuple[Path, bytes]]:
    for root in roots:
        for path in _list_ptx_files(root) if root.is_dir() else (root,):
            if path.suffix == ".ptx":
                text = consulted.read(path)
                if text is not None:
                    yield path, text
            elif root.is_file():
                yield from _extract_ptx(path, consulted)
    program = find_program_file(capture)
    if program is not None and program not in roots:
        yield from _extract_ptx(program, consulted)


def _list_ptx_files(root: Path) -> Iterator[Path]:
    for folder, files in walk_source_folders(root):
        yield from (Path(folder) / name for name in files if name.endswith(".ptx"))


def _extract_ptx(path: Path, consulted: Consulted) -> Iterator[tuple[Path, bytes]]:
    """Extract PTX from a program or a library by cuobjdump."""
    tool = find_cuda_tool("cuobjdump")
    consulted.exists(path)
    if tool is None:
        return
    with TemporaryFolder("ptx") as name:
        if _run([tool, "-xptx", "all", str(path.absolute())], name):
            for made in sorted(Path(name).glob("*.ptx")):
                yield path.with_name(f"{path.name}:{made.name}"), made.read_bytes()


def _assemble(ptx: Ptx, isa: str, symbol: str) -> bytes | None:
    tool = find_cuda_tool("ptxas")
    if tool is None:
        return None
    with TemporaryFolder("ptx") as name:
        source, output = Path(name) / "kernel.ptx", Path(name) / "kernel.cubin"
        source.write_bytes(ptx.text)
        done = _run([tool, f"-arch={isa}", "-o", str(output), str(source)], name)
        return find_kernel_code(output.read_bytes(), symbol) if done and output.is_file() else None


def _run(words: Sequence[str], folder: Path) -> bool:
    try:
        return run_tool(words, folder).returncode == 0
    except DeviceError:
        return False
