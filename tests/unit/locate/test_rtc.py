"""The files that are written for a recorded program, and the command that compiles them."""

from __future__ import annotations

import pytest

from kerncap_stages.compilers.cuda import CudaToolchain
from kerncap_stages.compilers.hip import HipToolchain
from kerncap_stages.digest import FileRef
from kerncap_stages.locate.rtc import rename_folder, write_program
from kerncap_stages.manifests.rtc import RtcFile, RtcProgram
from kerncap_stages.store import Store

KERNEL = b"__global__ void k() {}\n"
ADDED = (
    b'\n static __device__ const void* __amdgcn_name_expr_1[]= {"k", (void*)&k};'
    b"\n static auto __amdgcn_name_expr_stub_1 = __amdgcn_name_expr_1;"
)


@pytest.fixture
def make(tmp_path):
    """Store a program's texts, and write it to ``tmp_path / "written"``; returns its command."""
    store = Store.open(tmp_path / "store")
    folder = tmp_path / "written"
    folder.mkdir()

    def write(source, headers=(), **changes):
        with store.begin_transaction() as transaction:

            def file(name, text):
                return RtcFile(name=name, text=FileRef.to(transaction.put_bytes(text)), size_bytes=len(text))

            fields = {
                "compiler": "comgr 3.0", "library": "/nowhere/lib/c.so", "directory": "/", "target": "",
                "options": (),
                "source": file("k.cu", source), "headers": tuple(file(name, b"//\n") for name in headers),
            } | changes  # fmt: skip
            if "name" in fields:
                fields["source"] = file(fields.pop("name"), source)
            program = RtcProgram(**fields)
            toolchain = CudaToolchain() if program.compiler.startswith("nvrtc") else HipToolchain()
            return write_program(transaction, program, folder, toolchain)

    return write


def test_lines_that_instantiate_are_a_file_of_their_own(make):
    command = make(KERNEL + ADDED)
    assert command.file.name == "instantiations.cu"
    assert command.file.read_bytes() == b'#include "k.cu"\n' + ADDED
    assert (command.file.parent / "k.cu").read_bytes() == KERNEL


def test_name_expressions_of_nvrtc_are_instantiated(make):
    command = make(KERNEL, compiler="nvrtc 13.0", name_expressions=("k<int, 2>", "&counter"))
    (_, line) = command.file.read_text().splitlines()
    assert line == "static const void* const kernel_1 = (const void*)(k<int, 2>);"


def test_a_header_cannot_be_written_elsewhere(make, tmp_path):
    command = make(KERNEL, headers=("../out.h", "/tmp/out.h", "a/../../../out.h", "a/b.h"))
    written = [path for path in tmp_path.rglob("*.h") if path.is_file()]
    assert written == [tmp_path / "written/include/a/b.h"]
    assert command.arguments[0] == "hipcc"


def test_a_forced_header_is_the_recorded_one(make, tmp_path):
    words = ("-include", "runtime.h", "-include", "other.h")
    command = make(KERNEL, headers=("runtime.h",), options=words)
    own = str(tmp_path / "written/include/runtime.h")
    assert command.arguments[2:6] == ("-include", own, "-include", "other.h")


@pytest.mark.parametrize(
    ("name", "compiler", "file"),
    [
        ("CompileSourceXyZ12", "comgr 3.0", "program.hip"),
        ("", "nvrtc 13.0", "program.cu"),
        ("../../a b.cu", "nvrtc 13.0", "a_b.cu"),
        ("..", "comgr 3.0", "program.hip"),
        ("kernel", "comgr 3.0", "kernel.hip"),
    ],
)
def test_the_source_gets_a_plain_name(make, tmp_path, name, compiler, file):
    command = make(KERNEL, name=name, compiler=compiler)
    assert command.file == tmp_path / "written" / file


def test_the_temporary_folder_is_renamed(tmp_path):
    manifest = b'{"path":"%s/k.cu"}' % bytes(tmp_path)
    assert rename_folder(manifest, tmp_path, "/hiprtc") == b'{"path":"/hiprtc/k.cu"}'
