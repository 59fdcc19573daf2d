"""Lists the instructions of a kernel in a cubin by nvdisasm: to read only, because no tool assembles them."""

from __future__ import annotations

import struct
from pathlib import Path

from kerncap_stages.code.cubin_elf import read_sections, read_symbols
from kerncap_stages.compilers.cuda_tools import find_cuda_tool
from kerncap_stages.errors import DeviceError
from kerncap_stages.machine.run_tool import run_tool
from kerncap_stages.machine.temporary import TemporaryFolder

LISTING = "kernel.sass"


def list_machine_code(cubin: bytes, symbol: str) -> bytes | None:
    """Return the listing of one kernel; None if nvdisasm is missing or rejects the cubin."""
    tool = find_cuda_tool("nvdisasm")
    if tool is None:
        return None
    try:
        names = [each.name for each in read_symbols(cubin, read_sections(cubin))]
        with TemporaryFolder("listing") as name:
            path = Path(name) / "kernel.cubin"
            path.write_bytes(cubin)
            told = run_tool([tool, "-c", "-fun", names.index(symbol), path], path.parent)
    except (DeviceError, struct.error, IndexError, ValueError):
        return None
    return told.stdout.encode() if told.returncode == 0 else None
