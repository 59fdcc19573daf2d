"""Decodes whole code objects and compares each instruction with LLVM's disassembler: name, length, registers.

code_object_sweep.py TARGET DECODE_DUMP LLVM_BIN [FILE…]

FILE is a code object, or any file that holds offload bundles of this target, such as a HIP program or a
library. Without one: all functions of ROCm's device libraries, compiled here, optimised and not.
"""

from __future__ import annotations

import mmap
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from opcode_oracle import normal_name, registers, same_registers

if TYPE_CHECKING:
    from collections.abc import Iterator

MAGIC = b"__CLANG_OFFLOAD_BUNDLE__"
LIBRARIES = ("ocml", "ockl")
LEVELS = ("-O0", "-O2")
LINE = re.compile(r"^\s+(\S+)(?: +(.*?))?\s*// [0-9A-F]+: ((?:[0-9A-F]{8} ?)+)")
SPARE = "bf8f5a5a " * 4
SHOWN = 40
# Absent, as docs/software-gpu.md says: to be refused, whatever LLVM calls them.
ABSENT = re.compile(r"image_.*")


def device_libraries(target: str, llvm: Path, folder: Path) -> Iterator[Path]:
    """Code objects with every function of the libraries that the compiler links into programs."""
    for name in LIBRARIES:
        bitcode = next(llvm.parent.glob(f"lib/clang/*/amdgcn/bitcode/{name}.bc"))
        for level in LEVELS:
            output = folder / f"{name}{level}.o"
            # Some functions keep data in the LDS, which only kernels may: just a warning.
            command = [llvm / "llc", "-mtriple=amdgcn-amd-amdhsa", f"-mcpu={target}", level, "-filetype=obj"]
            subprocess.run([*command, bitcode, "-o", output], check=True, capture_output=True)
            yield output


def bundled(file: Path, target: str, folder: Path) -> Iterator[Path]:
    """The target's code objects in a file's offload bundles; the file itself, where it is one."""
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as content:
        if content[18:20] == b"\xe0\x00":  # an ELF file for AMD GPUs
            yield file
            return

        def number(at: int) -> int:
            return int.from_bytes(content[at : at + 8], "little")

        begin, count = content.find(MAGIC), 0
        while begin >= 0:
            position = begin + len(MAGIC) + 8
            entries = number(begin + len(MAGIC))
            for _ in range(entries if entries < 100 else 0):  # else the words alone, in a program's data
                offset, size, length = (number(position + i) for i in (0, 8, 16))
                name = content[position + 24 : position + 24 + length].decode(errors="replace")
                position += 24 + length
                if re.search(rf"amdgcn-amd-amdhsa--{target}\b", name) and size:
                    output = folder / f"{file.name}-{count}.co"
                    output.write_bytes(content[begin + offset : begin + offset + size])
                    count += 1
                    yield output
                    output.unlink()
            begin = content.find(MAGIC, begin + 1)


def disassembled(file: Path, llvm: Path) -> list[tuple[str, str, str]]:
    """Mnemonic, operands and words of each instruction that LLVM knows."""
    run = subprocess.run([llvm / "llvm-objdump", "-d", file], capture_output=True, text=True, check=True)
    matches = (LINE.match(line) for line in run.stdout.splitlines())
    return [(m[1], m[2] or "", m[3].strip()) for m in matches if m and not m[1].startswith(".")]


def differences(theirs: list[tuple[str, str, str]], ours: list[str]) -> Iterator[str]:
    """One line for each instruction that we decode otherwise, or refuse and should not."""
    for (mnemonic, operands, words), line in zip(theirs, ours, strict=True):
        refused = line.startswith("!")
        if ABSENT.fullmatch(mnemonic) and refused:
            continue
        name, size, *read = ["refused", "0"] if refused else line.split()
        same = normal_name(name) == normal_name(mnemonic) and int(size) == 4 * len(words.split())
        if not same or not same_registers(name, set(read), registers(operands)):
            yield f"{words}: {mnemonic} {operands}: {line}"


def main() -> int:
    """Sweep, print, and say whether all agree."""
    target, dump, llvm, *files = sys.argv[1:]
    total, problems = 0, []
    with tempfile.TemporaryDirectory() as folder:
        objects = (
            (each for file in files for each in bundled(Path(file), target, Path(folder)))
            if files
            else device_libraries(target, Path(llvm), Path(folder))
        )
        for each in objects:
            theirs = disassembled(each, Path(llvm))
            # The same instruction comes again and again.
            distinct = list(dict.fromkeys(theirs))
            text = "\n".join(f"{words} {SPARE}" for _, _, words in distinct)
            run = subprocess.run([dump, target], input=text, capture_output=True, text=True, check=True)
            found = [f"{each.name}: {problem}" for problem in differences(distinct, run.stdout.splitlines())]
            print(f"{each.name}: {len(theirs)} instructions, {len(distinct)} distinct, {len(found)} differ")
            total, problems = total + len(theirs), problems + found
    print(f"{target}: {total} instructions, {len(problems)} differ")
    print("\n".join(problems[:SHOWN]))
    return 1 if problems or not total else 0


if __name__ == "__main__":
    sys.exit(main())
