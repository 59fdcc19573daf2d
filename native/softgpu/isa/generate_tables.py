#!/usr/bin/env python3
"""Turn tables/ into C++ at build time: generate_tables.py BASE OVERLAY TARGET OUT.

A row of a table: format number mnemonic dst sdst src0 src1 src2. An operand is `-` or
[role:]type[*registers]; roles: `vcc` it is VCC and not in the encoding, `tied` it is the destination, `k` it
is the literal, `acc` it is an accumulation register, `s` a scalar register where a vector one would be.
"""

import re
import sys
from pathlib import Path

FORMATS = ["sop1", "sop2", "sopc", "sopk", "sopp", "smem", "vop1", "vop2", "vopc", "vop3", "vop3sd", "vop3p"]
FORMATS += ["mfma", "ds", "flat", "global", "scratch", "mubuf", "mtbuf", "mimg"]
SHARED_SPACE = {"vop3sd": "vop3", "mfma": "vop3p"}
REGISTERS = {"b96": 3, "b128": 4, "b256": 8, "b512": 16, "pk_f32": 2, "pk_b32": 2}
REGISTERS |= dict.fromkeys(("b64", "f64", "i64", "u64"), 2)
ROLES = {"": "field", "vcc": "vcc", "tied": "tied", "k": "literal", "acc": "accumulator", "s": "scalar"}
BRANCHES = r"s_(c?branch.*|setpc_b64|swappc_b64|call_b64|rfe.*)"
SYNC = r"s_(barrier|waitcnt.*|sleep|sethalt|setprio|sendmsg.*|wakeup|nop|endpgm.*|trap|dcache.*)"
CACHE_CONTROL = r".*_(wbl2|inv|invl2|wbinvl1.*)"


def read(path: Path, rows: dict[tuple[str, int], list[str]]) -> None:
    """Add a table's rows to `rows`, or apply an overlay's."""
    for line in path.read_text().splitlines():
        columns = line.split()
        if not columns or columns[0] == "#" or line.startswith("#"):
            continue
        if columns[0] == "!":
            for span in columns[2:]:
                first, _, last = span.partition("-")
                for number in range(int(first), int(last or first) + 1):
                    del rows[(SHARED_SPACE.get(columns[1], columns[1]), number)]
            continue
        rows[(SHARED_SPACE.get(columns[0], columns[0]), int(columns[1]))] = columns


def operand(text: str) -> str:
    """The OperandInfo initialiser of one column."""
    if text == "-":
        return "{}"
    match = re.fullmatch(r"(?:(\w+):)?(\w+)(?:\*(\d+))?", text)
    registers = int(match[3]) if match[3] else REGISTERS.get(match[2], 1)
    return f"{{N::{match[2]}, {registers}, R::{ROLES[match[1] or '']}}}"


def instruction_class(name: str, mnemonic: str) -> str:
    """The class that counts an instruction."""
    if re.fullmatch(BRANCHES, mnemonic):
        return "branch"
    if re.fullmatch(SYNC, mnemonic) or re.fullmatch(CACHE_CONTROL, mnemonic):
        return "sync"
    if name in ("flat", "global", "scratch", "mubuf", "mtbuf", "mimg"):
        return "vmem_atomic" if "atomic" in mnemonic else "vmem_store" if "store" in mnemonic else "vmem_load"
    if name[0] == "s":
        return "smem" if name == "smem" else "salu"
    return {"ds": "lds", "mfma": "matrix"}.get(name, "valu")


def main() -> None:
    """Write one target's C++ file."""
    base, overlay, target, out = sys.argv[1:5]
    rows: dict[tuple[str, int], list[str]] = {}
    read(Path(base), rows)
    read(Path(overlay), rows)
    ordered = sorted(rows.values(), key=lambda row: (FORMATS.index(row[0]), int(row[1])))
    lines = []
    for name, number, mnemonic, dst, sdst, *src in ordered:
        sources = ", ".join(operand(text) for text in src)
        head = (
            f'"{mnemonic}", Format::{name}, {number}, InstructionClass::{instruction_class(name, mnemonic)}'
        )
        lines.append(f"    {{{head}, {operand(dst)}, {operand(sdst)}, {{{sources}}}}},")
    Path(out).write_text(
        "// Made by generate_tables.py; do not edit.\n"
        '#include "softgpu/isa/tables.hpp"\n\n'
        "namespace kerncap::softgpu {\n"
        "namespace {\nusing N = NumberType;\nusing R = OperandRole;\n"
        f"constexpr Opcode k_rows[] = {{\n{chr(10).join(lines)}\n}};\n}}  // namespace\n\n"
        f"const std::span<const Opcode> k_{target}_opcodes = k_rows;\n"
        "}  // namespace kerncap::softgpu\n"
    )


if __name__ == "__main__":
    main()
