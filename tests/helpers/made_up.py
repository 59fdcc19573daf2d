"""Captures with the device code of real kernels and a made-up snapshot, for tests of all but replays."""

from __future__ import annotations

import io
import json
import subprocess
from typing import TYPE_CHECKING

from elftools.elf.elffile import ELFFile
from manifest_examples import capture as example_capture
from manifest_examples import code_object, environment, hsa_kernel

from kerncap_stages import _native
from kerncap_stages.digest import FileRef, MemoryRef
from kerncap_stages.manifests import dump
from kerncap_stages.manifests.environment import Program

if TYPE_CHECKING:
    from pathlib import Path

    from kerncap_stages.digest import Digest
    from kerncap_stages.store import Store


def device_code(source: Path, output: Path, *flags: str) -> bytes:
    """The code object of a file's kernels for gfx90a."""
    command = [
        "hipcc",
        "-x",
        "hip",
        "--offload-arch=gfx90a",
        "--offload-device-only",
        "--no-gpu-bundle-output",
    ]
    subprocess.run([*command, "-O3", *flags, "-o", output, source], check=True, capture_output=True)
    return output.read_bytes()


def text_section(code: bytes) -> bytes:
    """The instructions: the rest holds a hash of the command line."""
    return ELFFile(io.BytesIO(code)).get_section_by_name(".text").data()


def publish(store: Store, code: bytes, symbol: str, working_directory: str = "/") -> Digest:
    """A capture of a kernel of that symbol, with a region of zeros."""
    with store.begin_transaction() as transaction:
        stored = FileRef.to(transaction.put_bytes(code))
        state = MemoryRef.to(transaction.put_memory(bytes(4096)))
        kernel = hsa_kernel(
            mangled_name=symbol,
            demangled_name=_native.demangle(symbol),
            code_object=code_object().model_copy(update={"payload": stored, "size_bytes": len(code)}),
        )
        base = example_capture()
        regions = tuple(
            region.model_copy(update={"pre": state, "post": state, "written": (), "written_size_bytes": 0})
            for region in base.regions[:1]
        )
        manifest = base.model_copy(
            update={
                "parents": (),
                "kernel": kernel,
                "regions": regions,
                "module_variables": (),
                "loaded_code_objects": (),
                "environment": environment(),
                "program": Program(command=("./demo",), working_directory=working_directory),
            }
        )
        return transaction.publish(dump(manifest), "capture", [])


def write_database(tree: Path, *words: str, file: str = "k.hip", **entry: str) -> None:
    """A compilation database for one file, which is compiled by these words."""
    database = [{"directory": str(tree), "file": file, "arguments": [*words, "-c", file], **entry}]
    (tree / "compile_commands.json").write_text(json.dumps(database))


def make(folder: Path, *targets: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run targets of a project."""
    words = [f"{name}={value}" for name, value in variables.items()]
    return subprocess.run(
        ["make", "-C", folder, *targets, *words], capture_output=True, text=True, check=False
    )
