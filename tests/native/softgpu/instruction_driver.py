"""Client of the instruction driver, and the vector encodings that its tests need."""

from __future__ import annotations

import os
import struct
import subprocess
import threading
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

LANES = 64
TARGETS = {"gfx90a": 0, "gfx942": 1, "gfx1100": 2}
VCC, M0, EXEC = 106, 124, 126
ALL_LANES = (1 << LANES) - 1
# Nearest even, denormals kept, DX10 clamp, IEEE: what the compiler asks for by default.
DEFAULT_MODE = 0x3F0
IEEE_MODE = 0x200

STATUS = ("done", "not decodable", "no handler", "fault", "left the straight line")
DONE, NOT_DECODABLE, NO_HANDLER, FAULT = range(4)


@dataclass
class State:
    """What an instruction reads and writes. vgpr, agpr: uint32[registers, 64]."""

    vgpr: np.ndarray = field(default_factory=lambda: np.zeros((16, LANES), np.uint32))
    agpr: np.ndarray = field(default_factory=lambda: np.zeros((0, LANES), np.uint32))
    sgpr: np.ndarray = field(default_factory=lambda: np.zeros(128, np.uint32))
    mode: int = DEFAULT_MODE
    execute: int = ALL_LANES
    vcc: int = 0
    status: int = DONE
    detail: int = 0
    scc: bool = False  # afterwards; before, it is always 0

    def scalar64(self, index: int) -> int:
        """A pair of scalar registers."""
        return int(self.sgpr[index]) | int(self.sgpr[index + 1]) << 32


class InstructionDriver:
    """A running driver. Requests are written by a thread of their own, so that a batch cannot block
    itself."""

    def __init__(self, target: str, executable: Path) -> None:
        self.target = target
        self.process = subprocess.Popen([executable], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    @classmethod
    def from_environment(cls) -> InstructionDriver:
        """The executable and the target that the build's test runner names."""
        executable = Path(os.environ["KERNCAP_INSTRUCTION_DRIVER"])
        return cls(os.environ["KERNCAP_TEST_TARGET"], executable)

    def close(self) -> None:
        self.process.communicate(timeout=60)
        assert self.process.returncode == 0

    def run(self, words: list[int], state: State) -> State:
        return self.run_batch([(words, state)])[0]

    def run_batch(self, batch: list[tuple[list[int], State]]) -> list[State]:
        """The state after each sequence of instruction words, each started from the state beside it."""
        payload = b"".join(self._request(words, state) for words, state in batch)
        writer = threading.Thread(target=self._send, args=(payload,))
        writer.start()
        results = [self._response(state) for _, state in batch]
        writer.join()
        return results

    def _send(self, payload: bytes) -> None:
        self.process.stdin.write(payload)
        self.process.stdin.flush()

    def _request(self, words: list[int], state: State) -> bytes:
        sgpr = state.sgpr.copy()
        sgpr[VCC : VCC + 2] = state.vcc & 0xFFFFFFFF, state.vcc >> 32
        sgpr[EXEC : EXEC + 2] = state.execute & 0xFFFFFFFF, state.execute >> 32
        header = struct.pack(
            "<7I", TARGETS[self.target], state.mode, len(state.vgpr), len(state.agpr), len(words), 0, 0
        )
        return b"".join(
            [
                header,
                struct.pack(f"<{len(words)}I", *words),
                sgpr.tobytes(),
                state.vgpr.tobytes(),
                state.agpr.tobytes(),
            ]
        )

    def _response(self, before: State) -> State:
        status, detail, scc, _ = struct.unpack("<4I", self._read(16))
        sgpr = np.frombuffer(self._read(512), np.uint32)
        vgpr = np.frombuffer(self._read(before.vgpr.nbytes), np.uint32).reshape(before.vgpr.shape)
        agpr = np.frombuffer(self._read(before.agpr.nbytes), np.uint32).reshape(before.agpr.shape)
        after = State(vgpr, agpr, sgpr, before.mode, status=status, detail=detail, scc=bool(scc))
        after.vcc, after.execute = after.scalar64(VCC), after.scalar64(EXEC)
        return after

    def _read(self, size_bytes: int) -> bytes:
        data = self.process.stdout.read(size_bytes)
        assert len(data) == size_bytes, "the instruction driver ended early"
        return data


def sop1(op: int, dst: int, src0: int) -> list[int]:
    return [0x17D << 23 | dst << 16 | op << 8 | src0]


def sop2(op: int, dst: int, src0: int, src1: int) -> list[int]:
    return [0b10 << 30 | op << 23 | dst << 16 | src1 << 8 | src0]


def sopc(op: int, src0: int, src1: int) -> list[int]:
    return [0x17E << 23 | op << 16 | src1 << 8 | src0]


def sopk(op: int, dst: int, immediate: int) -> list[int]:
    return [0b1011 << 28 | op << 23 | dst << 16 | immediate]


def vgpr(index: int) -> int:
    """The source code of a vector register."""
    return 256 + index


def vop1(op: int, dst: int, src0: int) -> list[int]:
    return [0x3F << 25 | dst << 17 | op << 9 | src0]


def vop2(op: int, dst: int, src0: int, src1: int) -> list[int]:
    """src1 is a register number, not a source code."""
    return [op << 25 | dst << 17 | src1 << 9 | src0]


def vopc(op: int, src0: int, src1: int) -> list[int]:
    return [0x3E << 25 | op << 17 | src1 << 9 | src0]


def vop3(
    op: int,
    dst: int,
    *sources: int,
    neg: int = 0,
    abs_: int = 0,
    clamp: int = 0,
    omod: int = 0,
    op_sel: int = 0,
) -> list[int]:
    """Also VOPC (op below 256), VOP2 (256 up) and VOP1 (320 up) in their long form."""
    src0, src1, src2 = (*sources, 0, 0)[:3]
    low = 0x34 << 26 | op << 16 | clamp << 15 | op_sel << 11 | abs_ << 8 | dst
    return [low, neg << 29 | omod << 27 | src2 << 18 | src1 << 9 | src0]


def vop3sd(op: int, dst: int, sdst: int, *sources: int) -> list[int]:
    src0, src1, src2 = (*sources, 0, 0)[:3]
    return [0x34 << 26 | op << 16 | sdst << 8 | dst, src2 << 18 | src1 << 9 | src0]


def vop3p(
    op: int,
    dst: int,
    *sources: int,
    neg: int = 0,
    neg_hi: int = 0,
    clamp: int = 0,
    op_sel: int = 0,
    op_sel_hi: int = 7,
) -> list[int]:
    src0, src1, src2 = (*sources, 0, 0)[:3]
    low = 0x1A7 << 23 | op << 16 | clamp << 15 | op_sel_hi >> 2 << 14 | op_sel << 11 | neg_hi << 8 | dst
    return [low, neg << 29 | (op_sel_hi & 3) << 27 | src2 << 18 | src1 << 9 | src0]


def mfma(
    op: int,
    dst: int,
    *sources: int,
    cbsz: int = 0,
    abid: int = 0,
    blgp: int = 0,
    acc: int = 0,
    acc_cd: int = 0,
) -> list[int]:
    """acc: bit 0 for A, bit 1 for B in accumulation registers; acc_cd for the addend and the result."""
    src0, src1, src2 = sources
    low = 0x1A7 << 23 | op << 16 | acc_cd << 15 | abid << 11 | cbsz << 8 | dst
    return [low, blgp << 29 | acc << 27 | src2 << 18 | src1 << 9 | src0]
