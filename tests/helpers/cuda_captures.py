"""Captures of CUDA kernels without a GPU: a real cubin, a made-up snapshot; and whether there is an nvcc."""

from __future__ import annotations

import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from manifest_examples import capture as example_capture
from manifest_examples import code_object, environment, hsa_kernel

from kerncap_stages import _native
from kerncap_stages.compilers.cuda_tools import find_cuda_tool
from kerncap_stages.digest import Digest, FileRef, MemoryRef
from kerncap_stages.manifests import dump
from kerncap_stages.manifests.environment import Backend, Program
from kerncap_stages.manifests.kernel import CodeObjectFormat, Language

if TYPE_CHECKING:
    from kerncap_stages.collect.rtc_records import RtcRecords
    from kerncap_stages.store import Store

ARCH = "sm_90"


@cache
def why_no_nvcc() -> str:
    """Empty where nvcc compiles: it wants a host compiler that it knows."""
    tool = find_cuda_tool("nvcc")
    if tool is None:
        return "no nvcc on PATH, in /usr/local/cuda or of a Python package"
    with tempfile.TemporaryDirectory() as name:
        source = Path(name) / "k.cu"
        source.write_text("__global__ void k() {}\n")
        done = subprocess.run(
            [tool, "-cubin", f"-arch={ARCH}", "-o", Path(name) / "k.cubin", source],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    return "" if done.returncode == 0 else f"nvcc cannot compile here: {done.stderr.strip()[:200]}"


def nvcc(source: Path, output: Path, *flags: str) -> bytes:
    """What nvcc makes of a source: a cubin, or PTX with ``-ptx``."""
    form = () if "-ptx" in flags else ("-cubin",)
    words = [find_cuda_tool("nvcc"), "-x", "cu", *form, f"-arch={ARCH}", *flags, "-o", output, source]
    subprocess.run(words, check=True, capture_output=True)
    return output.read_bytes()


def publish_cuda(
    store: Store,
    code: bytes,
    symbol: str,
    working_directory: str = "/",
    isa: str = ARCH,
    records: RtcRecords | None = None,
) -> Digest:
    """A capture of a kernel of a cubin, with 4 KiB of memory. ``records``: of what NVRTC compiled."""
    with store.begin_transaction() as transaction:
        stored = FileRef.to(transaction.put_bytes(code))
        state = MemoryRef.to(transaction.put_memory(bytes(4096)))
        cubin = code_object(CodeObjectFormat.CUBIN).model_copy(
            update={"payload": stored, "size_bytes": len(code), "isa": isa}
        )
        kernel = hsa_kernel(
            mangled_name=symbol, demangled_name=_native.demangle(symbol), code_object=cubin,
            language=Language.CUDA_CPP, wavefront_size=32,
        )  # fmt: skip
        rtc = None if records is None else records.find((stored.digest,), transaction)
        kernel = kernel.model_copy(update={"rtc": rtc})
        base = example_capture(Backend.CUDA)
        regions = tuple(
            region.model_copy(update={"pre": state, "post": state, "written": (), "written_size_bytes": 0})
            for region in base.regions[:1]
        )
        made = base.model_copy(
            update={
                "parents": (),
                "kernel": kernel,
                "kernarg": "00" * kernel.kernarg_size_bytes,
                "regions": regions,
                "module_variables": (),
                "loaded_code_objects": (),
                "environment": environment(Backend.CUDA),
                "program": Program(command=("./app",), working_directory=working_directory),
            }
        )
        return transaction.publish(dump(made), "capture", [])
