"""What the tests of CUDA projects share: a store, and a source tree with its cubin."""

from __future__ import annotations

import json
import shutil

import pytest
from cuda_captures import nvcc
from cuda_projects import TREE

from kerncap_stages.store import Store


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A source tree as CMake leaves it, and the cubin of its unit."""
    folder = tmp_path_factory.mktemp("tree") / "app"
    shutil.copytree(TREE, folder)
    (folder / "build").mkdir()
    (folder / "build/includes_CUDA.rsp").write_text(f'-I"{folder}/include"\n')
    command = (
        "ccache nvcc -forward-unknown-to-host-compiler --options-file includes_CUDA.rsp -DWIDTH=4 "
        '-DNAME=\\"a\\ b\\" -O3 -std=c++17 --generate-code=arch=compute_90,code=[compute_90,sm_90] '
        "-Xcompiler=-fPIC -x cu -c ../src/main.cu -o main.o -MD -MT main.o -MF main.o.d"
    )
    entry = {"directory": str(folder / "build"), "file": "../src/main.cu", "command": command}
    (folder / "build/compile_commands.json").write_text(json.dumps([entry]))
    code = nvcc(
        folder / "src/main.cu", folder.parent / "main.cubin", "-DWIDTH=4", f"-I{folder}/include", "-std=c++17"
    )
    return folder, code


@pytest.fixture
def store(tmp_path):
    return Store.open(tmp_path / "store")
