"""Compare the decoder with LLVM's disassembler over the whole opcode space of a target.

    opcode_oracle.py TARGET DECODE_DUMP LLVM_MC

Every number of every encoding is tried with plain, literal, SDWA, DPP and random operands. Wherever LLVM
knows the words, name, length and registers must agree; an opcode that LLVM never knows must be refused. Exit
1 with the list of differences otherwise.
"""

import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator

# The first word of each encoding and where its opcode number goes: base, shift, count, words.
ENCODINGS = {
    "sop1": (0xBE800000, 8, 256, 1),
    "sop2": (0x80000000, 23, 96, 1),
    "sopc": (0xBF000000, 16, 128, 1),
    "sopk": (0xB0000000, 23, 26, 1),
    "sopp": (0xBF800000, 16, 128, 1),
    "smem": (0xC0000000, 18, 256, 2),
    "vop1": (0x7E000000, 9, 256, 1),
    "vop2": (0x00000000, 25, 62, 1),
    "vopc": (0x7C000000, 17, 256, 1),
    "vop3": (0xD0000000, 16, 896, 2),
    "vop3p": (0xD3800000, 16, 128, 2),
    "ds": (0xD8000000, 17, 256, 2),
    "flat": (0xDC000000, 18, 128, 2),
    "scratch": (0xDC004000, 18, 128, 2),
    "global": (0xDC008000, 18, 128, 2),
    "mubuf": (0xE0000000, 18, 128, 2),
    "mtbuf": (0xE8000000, 15, 16, 2),
    "mimg": (0xF0000000, 18, 128, 2),
}
# Bits of an instruction that random operands may take; the rest stays as the encoding needs it.
OPERAND_BITS = {
    "sop1": 0x007F00FF, "sop2": 0x007FFFFF, "sopc": 0x0000FFFF, "sopk": 0x007FFFFF, "sopp": 0x0000FFFF,
    "smem": 0x0003FFFF, "vop1": 0x01FE01FF, "vop2": 0x01FFFFFF, "vopc": 0x0001FFFF, "vop3": 0x0000FFFF,
    "vop3p": 0x0000FFFF, "ds": 0x0201FFFF, "flat": 0x02030FFF, "scratch": 0x02033FFF, "global": 0x02031FFF,
    "mubuf": 0x0003FFFF, "mtbuf": 0x03F87FFF, "mimg": 0x0003FFFF,
}  # fmt: skip
# Operands that suit most opcodes of an encoding: (bits of the first word, second word).
V64, V96, V128 = 0x140, 0x160 << 9, 0x180 << 18  # the three sources of VOP3
S6 = 6 << 9
USUAL = {
    "sop1": [(2 << 16 | 4, 0), (2 << 16, 0), (4, 0)],
    "sop2": [(2 << 16 | 6 << 8 | 4, 0), (6 << 8 | 4, 0)],
    "sopc": [(6 << 8 | 4, 0)],
    "sopk": [(2 << 16 | 8, 0), (8, 0), (0x1801, 0)],
    "sopp": [(0, 0)],
    "smem": [(1 << 17 | 8 << 6 | 2, 0x10), (8 << 6 | 2, 4), (0, 0), (8 << 6, 0), (1 << 17 | 2, 0x10)],
    "vop1": [(32 << 17 | 0x140, 0), (0, 0), (32 << 17 | 0x104, 0), (2 << 17 | 0x104, 0)],
    "vop2": [(32 << 17 | 64 << 9 | 0x160, 0)],
    "vopc": [(64 << 9 | 0x160, 0)],
    "vop3": [
        *[(dst, V64 | src1 | src2) for dst in (2, 32, 0x220) for src1 in (0, S6, V96) for src2 in (0, V128)],
        (0x220, V64 | V96 | 6 << 18), (0, 0), (32, 4 | S6),
    ],
    "vop3p": [
        (32, V64 | V96 | V128), (32, V64 | V96), (32, V64), (0x4020, 0x18000000 | V64 | V96),
        (0x4020, 0x18000000 | V64), (0x8020, V64 | V96 | V128),
    ],
    "ds": [
        *[(0, a | b | c | d) for a in (0, 4) for b in (0, 2048) for c in (0, 1 << 20) for d in (0, 32 << 24)],
        *[(1 << 16, a | b << 8) for a in (0, 4) for b in (0, 8)],
    ],
    "mubuf": [(0x1000, 0x80020804), (0x5000, 0x80020804), (0, 0), (0x11000, 0x80020004)],
    "mtbuf": [(0x1000, 0x80020804)],
    "mimg": [(0xF00, 0x00040204), (0x5F00, 0x00010004)],
}  # fmt: skip
for segment in ("flat", "scratch", "global"):
    USUAL[segment] = [
        (flags, a | d << 8 | saddr << 16 | dst << 24)
        for flags in (0, 1 << 16, 1 << 13) if not (flags == 1 << 13 and segment != "scratch")
        for a in (0, 4) for d in (0, 8) for saddr in (0x7F, 0, 2) for dst in (0, 32)
    ]  # fmt: skip

# Refused on purpose: see the overlays; buffer_store_lds_dword is in no table of AMD's for gfx90a.
REFUSED = {("smem", 38), ("smem", 39), ("mubuf", 61)}
# Two instructions that the tries never hold.
SPARE, SPARE_BYTES = "s_setprio 0x5a5a", "0x5a,0x5a,0x8f,0xbf"
END, END_BYTES = "s_setprio 0x5a5b", "0x5b,0x5a,0x8f,0xbf"
SPARES = 4
QUIET = {**os.environ, "LLVM_DISABLE_SYMBOLIZATION": "1", "LLVM_DISABLE_CRASH_REPORT": "1"}
CHUNK = 1000
RANDOM_TRIES = 10
SEED = 20240607


def candidates(name: str, number: int, rng: random.Random) -> Iterator[tuple[int, ...]]:
    """Words to try for one opcode number."""
    base, shift, _, words = ENCODINGS[name]
    first = base | number << shift
    for low, high in USUAL[name]:
        yield (first | low, high) if words == 2 else (first | low,)
        if words == 1:
            yield first | low, 0x3F801234
    for _ in range(RANDOM_TRIES):
        yield (first | rng.getrandbits(32) & OPERAND_BITS[name], rng.getrandbits(32))
        # Small register numbers, plain flags: more likely to be legal.
        second = sum(rng.choice((0, 2, 4, 8, 16)) << at for at in (0, 8, 16, 24))
        yield (
            first | rng.getrandbits(32) & rng.getrandbits(32) & rng.getrandbits(32) & OPERAND_BITS[name],
            second,
        )
    if name in ("vop1", "vop2", "vopc"):
        for _ in range(RANDOM_TRIES):
            dst = rng.getrandbits(32) & 0x01FE0000 if name != "vopc" else 0
            source = rng.getrandbits(8) << 9 if name != "vop1" else 0
            control = rng.choice((0x101, 0x111, 0x130, 0x140, 0xE4, 0x151, 0x142)) << 8
            yield first | dst | source | 0xFA, rng.getrandbits(8) | control | rng.getrandbits(13) << 19
            select = rng.choice((0, 1, 2, 3, 4, 5, 6)) << 16 | rng.choice((0, 3, 5, 6)) << 24
            result = (
                rng.choice((0, 0x8400)) if name == "vopc" else rng.choice((0, 0x400, 0x600, 0x800, 0x1600))
            )
            modifiers = rng.getrandbits(32) & 0x00380000
            yield first | dst | source | 0xF9, rng.getrandbits(8) | select | result | modifiers


def disassemble(llvm_mc: str, target: str, encodings: list[tuple[int, ...]]) -> list[tuple[int, str] | None]:
    """What LLVM makes of each: length and text, or None.

    It prints nothing for words that it does not know, and one instruction may take the next line's words for
    its own: so spare instructions and an end mark follow each try, and what stands before them is the first
    instruction of the try, and maybe more. LLVM 21 dies of some words: a run that died is halved until those
    are alone, and they count as unknown.
    """
    half = len(encodings) // 2
    if len(encodings) > CHUNK:
        return disassemble(llvm_mc, target, encodings[:half]) + disassemble(llvm_mc, target, encodings[half:])
    lines = []
    for words in encodings:
        data = b"".join(word.to_bytes(4, "little") for word in words)
        lines += [",".join(f"0x{byte:02x}" for byte in data), *[SPARE_BYTES] * SPARES, END_BYTES]
    command = [llvm_mc, "--disassemble", "-triple=amdgcn-amd-amdhsa", f"-mcpu={target}", "--show-encoding"]
    text = "\n".join(lines)
    run = subprocess.run(command, input=text, capture_output=True, text=True, check=False, env=QUIET)
    if run.returncode < 0:
        if len(encodings) == 1:
            return [None]
        return disassemble(llvm_mc, target, encodings[:half]) + disassemble(llvm_mc, target, encodings[half:])
    failed = {int(number) for number in re.findall(r"<stdin>:(\d+):1: warning: invalid", run.stderr)}
    answers: list[tuple[int, str] | None] = []
    first: tuple[int, str] | None = None
    for match in re.finditer(r"^\s*(\S.*?)\s*[;/]+ encoding: \[(.*)\]$", run.stdout, re.MULTILINE):
        if match[1] == END:
            known = (
                first and (SPARES + 2) * len(answers) + 1 not in failed and "Invalid register" not in first[1]
            )
            answers.append(first if known else None)
            first = None
        elif match[1] != SPARE:
            first = first or (len(match[2].split(",")), match[1])
    return answers


def decode(dump: str, target: str, encodings: list[tuple[int, ...]]) -> list[str]:
    """What our decoder makes of each."""
    spare = 0xBF8F5A5A  # what follows for LLVM, too
    text = "\n".join(" ".join(f"{word:x}" for word in (*words, *[spare] * SPARES)) for words in encodings)
    run = subprocess.run([dump, target], input=text, capture_output=True, text=True, check=True)
    return run.stdout.splitlines()


def normal_name(name: str) -> str:
    """One spelling for the several of matrix instructions and encodings."""
    name = re.sub(r"_(e32|e64|sdwa|dpp)$", "", name)
    if "mfma" in name:
        name = re.sub(r"_\d+b_", "_", name).replace("_1k", "").replace("_", "")
    return name


# LLVM disassembles them, and assembles none.
ODD_TUPLE = re.compile(r"\b[va]\[\d*[13579]:")
NAMED = r"(?:vcc|exec|flat_scratch|xnack_mask)(?:_lo|_hi)?|m0"
REGISTER = re.compile(rf"\b(?:{NAMED}|(?:v|s|a|ttmp)\d+)\b(?!\()|\b(?:v|s|a|ttmp)\[\d+(?::\d+)?\]")


def registers(operands: str) -> set[str]:
    """The registers in LLVM's operand text."""
    names = REGISTER.findall(re.sub(r"hwreg\([^)]*\)", "", operands))
    return {re.sub(r"\[(\d+)\]", r"\1", name) for name in names}


def same_registers(name: str, ours: set[str], theirs: set[str]) -> bool:
    """LLVM prints the registers of a buffer compare-and-swap once; what comes back fills the first half.

    Image instructions are only named.
    """
    if name.startswith("image_"):
        return True
    return theirs <= ours if name.startswith("buffer_atomic_cmpswap") else ours == theirs


def main() -> int:
    """Compare, print, and say whether they agree."""
    target, dump, llvm_mc = sys.argv[1:4]
    rng = random.Random(SEED)
    tried: dict[tuple[str, int], list[tuple[int, ...]]] = {}
    for name, (_, _, count, _) in ENCODINGS.items():
        for number in range(count):
            tried[name, number] = list(candidates(name, number, rng))
    flat = [words for group in tried.values() for words in group]
    answers = disassemble(llvm_mc, target, flat)
    assert len(answers) == len(flat), "a marker was lost"
    theirs_and_ours = iter(zip(answers, decode(dump, target, flat), strict=True))
    problems, agreed, opcodes = [], 0, 0
    for (name, number), group in tried.items():
        in_llvm, in_ours = False, ""
        for i, words in enumerate(group):
            answer, line = next(theirs_and_ours)
            where = f"{name} {number}: {' '.join(f'{word:08x}' for word in words)}"
            if not line.startswith("!"):
                in_ours = line.split()[0]
            if answer is None:
                continue
            in_llvm = True
            size, theirs = answer
            if len(words) == 2 and "16_e32" in theirs and 240 <= words[0] & 0x1FF <= 248:
                size = 4  # LLVM prints float constants of 16-bit integers as literals, and counts them so
            mnemonic, _, operands = theirs.partition(" ")
            if line.startswith("!"):
                # LLVM rounds misaligned scalar tuples down, and prints odd vector tuples and vector registers
                # for masks: only the tries with legal operands must be accepted.
                usual = i < len(USUAL[name]) and not re.match(r"v_(cndmask|addc|subb|subbrev)_", mnemonic)
                if (name, number) not in REFUSED and (usual or "operand" not in line):
                    problems.append(f"{where}: refused ({line[2:]}), LLVM: {theirs}")
                continue
            if ODD_TUPLE.search(operands) and name != "mimg":
                problems.append(f"{where}: an odd tuple was accepted: {line}, LLVM: {theirs}")
                continue
            our_name, our_size, *our_registers = line.split()
            if normal_name(mnemonic) != normal_name(our_name):
                problems.append(f"{where}: {line}, LLVM: {theirs}")
                continue
            same = same_registers(our_name, set(our_registers), registers(operands))
            if int(our_size) != size or not same:
                problems.append(f"{where}: {line}, LLVM: {size} {theirs}")
            else:
                agreed += 1
        if in_ours and not in_llvm:
            problems.append(f"{name} {number}: {in_ours} is not an opcode of {target}")
        opcodes += bool(in_ours)
    print(f"{target}: {opcodes} opcodes, {agreed} encodings agree, {len(problems)} differ")
    for problem in problems[:200]:
        print(problem)
    return 1 if problems or agreed < 10 * opcodes else 0


if __name__ == "__main__":
    sys.exit(main())
