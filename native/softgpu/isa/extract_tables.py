#!/usr/bin/env python3
"""Extract the opcode tables in tables/ from the tinygrad 0.14.0 wheel (MIT), once.

    pip download --no-deps tinygrad==0.14.0 && unzip -d wheel tinygrad-*.whl
    extract_tables.py wheel tables/

Only facts are taken: opcode numbers, names, operand widths and number types, which that wheel generates from
AMD's machine-readable ISA description. It describes gfx950 (`cdna`) and RDNA 3.5 (`rdna3`); what differs on
the targets executed here is in the hand-written overlays next to the tables. The pseudo-code is not read.
"""

import importlib
import re
import sys
from pathlib import Path

# The class of each format in the wheel's `ins` module; the fields that become dst, sdst, src0, src1, src2.
FORMATS = {
    "sop1": ("SOP1_LIT", "sdst - ssrc0"),
    "sop2": ("SOP2_LIT", "sdst - ssrc0 ssrc1"),
    "sopc": ("SOPC", "- - ssrc0 ssrc1"),
    "sopk": ("SOPK_LIT", "sdst"),
    "sopp": ("SOPP", ""),
    "smem": ("SMEM", "sdata - sbase soffset"),
    "vop1": ("VOP1_LIT", "vdst - src0"),
    "vop2": ("VOP2_LIT", "vdst - src0 vsrc1"),
    "vopc": ("VOPC", "- - src0 vsrc1"),
    "vop3": ("VOP3", "vdst - src0 src1 src2"),
    "vop3cmp": ("VOP3_SDST", "vdst - src0 src1"),
    "vop3sd": ("VOP3SD", "vdst sdst src0 src1 src2"),
    "vop3p": ("VOP3P", "vdst - src0 src1 src2"),
    "mfma": ("VOP3P_MFMA", "vdst - src0 src1 src2"),
    "ds": ("DS", "vdst - addr data0 data1"),
    "flat": ("FLAT", "vdst - addr data"),
    "global": ("GLOBAL", "vdst - addr data"),
    "scratch": ("SCRATCH", "vdst - addr data"),
    "mubuf": ("MUBUF", "vdata - vaddr vdata"),
    "mtbuf": ("MTBUF", "vdata - vaddr vdata"),
}
PACKED = {
    "F16": "pk_f16",
    "BF16": "pk_bf16",
    "I16": "pk_i16",
    "U16": "pk_u16",
    "B16": "b32",
    "F32": "pk_f32",
    "B32": "pk_b32",
}
ACCUMULATORS = {"OPR_ACCVGPR", "OPR_SRC_ACCVGPR"}


def number_type(fmt: str, bits: int) -> str:
    """The name of a number type in our tables, for one of the wheel's."""
    body = fmt.removeprefix("FMT_").removeprefix("NUM_")
    if match := re.fullmatch(r"PK(\d*)_(\w+)", body):
        count, element = int(match[1] or 2), match[2]
        if count == 2 and element in PACKED:
            return PACKED[element]
        if element in ("F32", "F64", "I32"):  # a matrix accumulator
            return element.lower()
        return {"F16": "pk_f16", "BF16": "pk_bf16"}.get(element, f"b{max(32, bits)}")
    body = {"U24": "u32", "I24": "i32", "M64": "b64"}.get(body, body.lower())
    if body in ("f16", "bf16", "f32", "f64", "i16", "u16", "i32", "u32", "i64", "u64", "b16", "b32", "b64"):
        return body
    return f"b{max(32, bits)}"


NATURAL_BITS = dict.fromkeys(
    ("f16", "bf16", "i16", "u16", "b16", "pk_f16", "pk_bf16", "pk_i16", "pk_u16"), 32
)
NATURAL_BITS |= {"pk_f32": 64, "pk_b32": 64}


def token(info: tuple, vector: bool) -> str:
    """One operand: [role:]type[*registers], the count where the type alone does not say it."""
    fmt, bits, kind = info[0].name, info[1], info[2].name
    name = number_type(fmt, bits)
    natural = NATURAL_BITS.get(name) or int(re.sub(r"\D", "", name))
    registers = max(1, bits // 32)
    text = name if registers == natural // 32 else f"{name}*{registers}"
    if kind in ACCUMULATORS:
        return f"acc:{text}"
    return f"s:{text}" if vector and kind.startswith(("OPR_SREG", "OPR_SDST")) else text


def implied(name: str, mnemonic: str, columns: list[str]) -> list[str]:
    """Add the operands that the encoding leaves out, so that an opcode reads like its three-operand form."""
    dst, sdst, src0, src1, src2 = columns
    carry_in = re.fullmatch(r"v_(addc|subb|subbrev)_co_u32|v_\w+_co_ci_u32", mnemonic)
    if name == "vopc":
        dst = "vcc:b64"
    if name == "vop2" and (carry_in or re.fullmatch(r"v_(add|sub|subrev)_co_u32", mnemonic)):
        sdst = "vcc:b64"
    if name == "vop2" and (carry_in or mnemonic.startswith("v_cndmask_b")):
        src2 = "vcc:b64"
    if name in ("vop2", "vop3") and re.match(r"v_(mac|fmac|pk_fmac|dot\d+a?c)_", mnemonic):
        src2 = f"tied:{dst}"
    if re.match(r"v_(madmk|fmamk)_", mnemonic):
        src1, src2 = f"k:{src1}", src1
    if re.match(r"v_(madak|fmaak)_", mnemonic):
        src2 = f"k:{src1}"
    if re.match(r"s_(\w+_)?store_", mnemonic):
        dst, src2 = "-", dst
    if re.match(r"t?buffer_load_", mnemonic):
        src1 = "-"
    if re.match(r"t?buffer_store_", mnemonic) or "_load_lds_" in mnemonic:
        dst = "-"
    if re.match(r"buffer_atomic_cmpswap", mnemonic):
        dst = {"b64": "b32", "b128": "b64"}[dst]  # compares and data go in, one value comes back
    return [dst, sdst, src0, src1, src2]


def rows(arch: str) -> list[tuple[str, int, str, list[str]]]:
    """All rows of one table of the wheel."""
    ins = importlib.import_module(f"tinygrad.runtime.autogen.amd.{arch}.ins")
    operands = importlib.import_module(f"tinygrad.runtime.autogen.amd.{arch}.operands").OPERANDS
    out = []
    for name, (class_name, fields) in FORMATS.items():
        instruction = getattr(ins, class_name, None)
        if instruction is None:
            continue  # no matrix half on rdna3
        matrix = getattr(ins, "VOP3P_MFMA", None)
        for op in instruction.op.allowed:
            if name == "vop3p" and matrix is not None and op in matrix.op.allowed:
                continue
            info = operands.get(op, {})
            vector = name[0] == "v"
            columns = [token(info[field], vector) if field in info else "-" for field in fields.split()]
            mnemonic = re.sub(r"_e(32|64)$", "", op.name.lower())
            columns = implied(name, mnemonic, columns + ["-"] * (5 - len(columns)))
            out.append((name.removesuffix("cmp"), op.value, mnemonic, columns))
    order = {name: i for i, name in enumerate(FORMATS)}
    unique = {(f, n, m, tuple(c)) for f, n, m, c in out}
    return sorted(unique, key=lambda row: (order[row[0]], row[1], row[2]))


def main() -> None:
    """Write the tables."""
    wheel, tables = Path(sys.argv[1]), Path(sys.argv[2])
    sys.path.insert(0, str(wheel))
    for arch in ("cdna",):  # the rdna3 tables have the same form
        lines = ["# format number mnemonic dst sdst src0 src1 src2; made by extract_tables.py, see README.md"]
        lines += [" ".join([f, str(n), m, *c]) for f, n, m, c in rows(arch)]
        (tables / f"{arch}.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
