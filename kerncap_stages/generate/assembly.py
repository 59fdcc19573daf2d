"""Disassembles a kernel to text that can be edited, and assembles edited text into its code object.

Only the kernel changes in the code object. Text that was not edited gives the same bytes again. An edited
kernel replaces the old one; if it is too large for its place, it goes to a new segment at the end, and its
descriptor points there. Addresses relative to the program counter are written as targets (`kc_target_...`),
so that instructions can be added and removed.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.code.read import read_code_object
from kerncap_stages.code.targets import find_processor
from kerncap_stages.compilers.llvm_tools import run_llvm
from kerncap_stages.errors import UsageError
from kerncap_stages.generate.elf_patch import Image, KernelPlace, read_object_sections
from kerncap_stages.machine.temporary import TemporaryFolder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_TRIPLE = "amdgcn-amd-amdhsa"
_MAX_BYTES = 4 << 20  # of instructions: nobody edits a longer text
_INSTRUCTION = re.compile(r"^\t(.*?)\s*// ([0-9A-F]{12}): ((?:[0-9A-F]{8} ?)+)(?:<.*)?$")
# Branches: the lower half of their first word is the distance from the end of the instruction, in words.
_BRANCH = re.compile(r"^(s_branch|s_cbranch_(?!g_fork|join)\w+|s_call_b64|s_subvector_loop_\w+) (.*, )?\S+$")
_GETPC = re.compile(r"^s_getpc_b64 s\[(\d+):(\d+)\]$")
# Assemblers address far labels like this: the distance is from the end of s_getpc_b64, minus 4.
_DISTANCE = re.compile(r"^s_add_i32 s\d+, \S+, 4$")
_PAIR = re.compile(r"^s_(add_u32|addc_u32|add_co_u32|add_co_ci_u32) s(\d+), s(\d+), (\S+)$")
_ENCODING = re.compile(r"encoding: \[([^\]]*)\]")
_DIRECTIVE = re.compile(r"^\s*\.amdhsa_(?!kernel )\w+ [-\w]+\s*$")


@dataclass(frozen=True)
class Assembled:
    """A code object with an edited kernel. ``warnings``: the assembler's messages about the accepted text."""

    code: bytes
    warnings: str = ""


class _Line:
    """One instruction: its text, its original address, its bytes."""

    def __init__(self, text: str, address: int, words: str) -> None:
        self.text, self.address = text, address
        self.words = [int(word, 16) for word in words.split()]

    @property
    def data_text(self) -> str:
        """The bytes as data, for an instruction that the assembler would encode differently."""
        return ".long " + ", ".join(f"{word:#010x}" for word in self.words) + f"  // {self.text}"


def disassemble(code: bytes, symbol: str) -> str:
    """Return the text of ``kernel_variant.s``, after checking that it assembles to the same bytes again.

    Raises DeviceError if LLVM's tools are missing or do not know the processor, UsageError if the code object
    does not have the kernel, or the kernel is too large to edit.
    """
    image = Image(code)
    place = image.find_kernel(symbol)
    if place.size_bytes > _MAX_BYTES:
        raise UsageError(f"the kernel has {place.size_bytes} bytes of instructions: too many to edit as text")
    lines, said = _list_instructions(code, place)
    _name_targets(lines, place)
    processor = _read_processor(code)
    head = [
        "// The instructions of one kernel. `make assemble` puts them back into its code object.",
        "// kc_target_A is what was at address A of the code object; the processor is " + processor + ".",
        *(f"// llvm-objdump says: {line}" for line in said),
        "\t.text",
        "\t.p2align 8",
        "kc_kernel:",
    ]
    targets = sorted(set(re.findall(r"kc_target_([0-9a-f]+)", "\n".join(line.text for line in lines))))
    head += [f"\t.set kc_target_{at}, kc_kernel + ({int(at, 16):#x} - kc_base)" for at in targets]
    _replace_by_data(head, lines, processor, place)
    text = "\n".join([*head, *_write_body(lines), ""])
    descriptor = _write_descriptor(code, place)
    for candidate in dict.fromkeys((text + descriptor, text)):
        with contextlib.suppress(UsageError):
            if assemble(candidate, code, symbol).code == code:
                return candidate
    raise UsageError("the kernel cannot be edited as text: it does not assemble to the same bytes again")


def assemble(text: str, code: bytes, symbol: str) -> Assembled:
    """Assemble ``text``, and return the code object with the kernel replaced by it.

    Raises UsageError with the assembler's messages if the text is wrong, DeviceError if no assembler knows
    the processor.
    """
    image = Image(code)
    place = image.find_kernel(symbol)
    processor = _read_processor(code)
    made, descriptor, said = _run_assembler(text, processor, place.address)
    if len(made) > place.room_bytes:
        address = image.find_next_address()
        made, descriptor, said = _run_assembler(text, processor, address)
        image.move_kernel(place, made, address)
    else:
        image.replace_kernel(place, made)
    if descriptor is not None:
        image.replace_descriptor(place, descriptor)
    return Assembled(image.content, said)


def _read_processor(code: bytes) -> str:
    return find_processor(read_code_object(code).isa)


def _run_objdump(code: bytes, start: int, end: int, *options: str) -> tuple[list[str], list[str]]:
    """Run llvm-objdump on a range of addresses; returns the lines of its listing and of its warnings."""
    with TemporaryFolder("assembly") as name:
        path = Path(name) / "code"
        path.write_bytes(code)
        around = (f"--start-address={start}", f"--stop-address={end}")
        done = run_llvm("llvm-objdump", *options, *around, path)
    if done.returncode != 0:
        raise UsageError(
            f"the code object cannot be disassembled: {done.stderr.strip()}",
            hint="capture the kernel again, or leave out --assembly",
        )
    return done.stdout.splitlines(), done.stderr.replace(str(path), "the code object").splitlines()


def _list_instructions(code: bytes, place: KernelPlace) -> tuple[list[_Line], list[str]]:
    start, end = place.address, place.address + place.size_bytes
    listing, said = _run_objdump(code, start, end, "-d", "--disassemble-zeroes")
    found = filter(None, map(_INSTRUCTION.match, listing))
    lines = [_Line(match[1], int(match[2], 16), match[3]) for match in found]
    # The disassembler writes a branch's target as a distance or as a symbol's name, which may not be unique.
    addresses = {line.address for line in lines}
    for line in lines:
        distance = ((line.words[0] & 0xFFFF) ^ 0x8000) - 0x8000
        target = line.address + 4 + 4 * distance
        if _BRANCH.match(line.text) and target in addresses:
            line.text = f"{line.text.rpartition(' ')[0]} .L_{target:x}"
    return lines, said


def _name_targets(lines: Sequence[_Line], place: KernelPlace) -> None:
    """Replace the distance in ``s_getpc_b64`` and two additions by a label for the target."""
    addresses = {line.address for line in lines}
    for i, line in enumerate(lines):
        match = _GETPC.match(line.text)
        if not match:
            continue
        if _name_far_label(lines[i : i + 2], addresses):
            continue
        low = high = None
        for after in lines[i + 1 : i + 6]:
            pair = _PAIR.match(after.text)
            if pair and pair[2] == pair[3] == match[1] and low is None and len(after.words) == 2:
                low = after
            elif pair and pair[2] == pair[3] == match[2] and low is not None:
                high = after
                break
        if low is None or high is None or len(high.words) != 2:
            line.text += "  // the next instructions use a fixed distance: add and remove none after this"
            continue
        here = line.address + 4
        target = (here + low.words[1] + (high.words[1] << 32)) & (2**64 - 1)
        name = f"kc_target_{target:x}"
        if place.address <= target < place.address + place.size_bytes:
            if target not in addresses:
                continue
            name = f".L_{target:x}"
        line.text += f"\n.L_pc_{here:x}:"
        low.text = low.text.rpartition(" ")[0] + f" {name}-.L_pc_{here:x}"
        high.text = high.text.rpartition(" ")[0] + f" ({name}-.L_pc_{here:x})>>32"


def _name_far_label(lines: Sequence[_Line], addresses: set[int]) -> bool:
    """Replace the distance in ``s_getpc_b64`` and ``s_add_i32``, which address a label too far for a branch.

    Returns whether the lines are such a pair.
    """
    if len(lines) != len(("s_getpc_b64", "s_add_i32")) or not _DISTANCE.match(lines[1].text):
        return False
    here, added = lines[0].address + 4, lines[1]
    if len(added.words) == 1 or added.address != here:
        return False
    target = here + 4 + ((added.words[1] ^ 0x80000000) - 0x80000000)
    if target not in addresses:
        return False
    lines[0].text += f"\n.L_pc_{here:x}:"
    added.text = f"{added.text.rsplit(' ', 2)[0]} .L_{target:x}-.L_pc_{here:x}-4, 4"
    return True


def _write_body(lines: Sequence[_Line]) -> Iterator[str]:
    wanted = {int(at, 16) for line in lines for at in re.findall(r"[ (]\.L_([0-9a-f]+)", line.text)}
    for line in lines:
        if line.address in wanted:
            yield f".L_{line.address:x}:"
        yield f"\t{line.text}"


def _replace_by_data(head: Sequence[str], lines: Sequence[_Line], processor: str, place: KernelPlace) -> None:
    """Turn instructions into data that the assembler would reject, or would encode differently."""
    for _ in range(3):
        with TemporaryFolder("assembly") as name:
            path = Path(name) / "k.s"
            path.write_text("\n".join([*head, *_write_body(lines), ""]))
            words = [f"-triple={_TRIPLE}", f"-mcpu={processor}", "-show-encoding"]
            done = run_llvm("llvm-mc", *words, f"--defsym=kc_base={place.address}", path)
        rejected = {int(number) for number in re.findall(r"k\.s:(\d+):\d+: error", done.stderr)}
        if not rejected:
            break
        written = "\n".join([*head, *_write_body(lines)]).split("\n")
        bad = {written[number - 1].strip() for number in rejected if number <= len(written)}
        for line in lines:
            if line.text.partition("\n")[0] in bad:
                line.text = line.data_text
    encodings = [match[1].split(",") for match in _ENCODING.finditer(done.stdout)]
    spelled = [line for line in lines if not line.text.startswith(".long")]
    if len(encodings) != len(spelled):
        return
    for line, encoded in zip(spelled, encodings, strict=True):
        stored = b"".join(word.to_bytes(4, "little") for word in line.words)
        known = [int(byte, 16) if byte.startswith("0x") else None for byte in encoded]
        same = len(known) == len(stored) and all(
            byte is None or byte == stored[i] for i, byte in enumerate(known)
        )
        if not same and "'" not in ",".join(encoded):
            line.text = line.data_text


def _write_descriptor(code: bytes, place: KernelPlace) -> str:
    """Write the kernel descriptor as directives; empty if llvm-objdump does not write it."""
    start = place.descriptor_address
    if start is None:
        return ""
    listed, _ = _run_objdump(code, start, start + 64, "-D")
    directives = [line.rstrip() for line in listed if _DIRECTIVE.match(line)]
    if not directives:
        return ""
    lines = [
        "",
        "\t.rodata",
        "\t.p2align 6",
        "\t.amdhsa_kernel kc_kernel",
        *directives,
        "\t.end_amdhsa_kernel",
        "",
    ]
    return "\n".join(lines)


def _run_assembler(text: str, processor: str, address: int) -> tuple[bytes, bytes | None, str]:
    """Assemble a text; returns its instructions, its descriptor if it has one, and messages."""
    with TemporaryFolder("assembly") as name:
        source, output = Path(name) / "kernel_variant.s", Path(name) / "kernel.o"
        source.write_text(text)
        words = [f"-triple={_TRIPLE}", f"-mcpu={processor}", "-filetype=obj"]
        # The disassembler writes descriptors as if no registers were reserved for XNACK.
        words.append("-mattr=-xnack")
        done = run_llvm("llvm-mc", *words, f"--defsym=kc_base={address}", "-o", output, source)
        said = done.stderr.replace(str(source), "kernel_variant.s").strip()
        if done.returncode != 0:
            raise UsageError(f"kernel_variant.s does not assemble:\n{said}", hint="correct it and try again")
        instructions, descriptor, needed = read_object_sections(output.read_bytes())
    if needed:
        raise UsageError(
            f"kernel_variant.s uses symbols that it does not define: {', '.join(needed)}",
            hint="kc_target_A is address A of the code object",
        )
    return instructions, descriptor, said
