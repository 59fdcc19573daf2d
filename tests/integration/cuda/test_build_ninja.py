"""Compile commands read out of build.ninja: the real nvcc and ninja."""

from __future__ import annotations

import pytest
from cuda_captures import nvcc, publish_cuda
from cuda_projects import NEEDS_NVCC

from kerncap_stages.errors import UsageError
from kerncap_stages.locate.locating import run_locate
from kerncap_stages.locate.options import Options
from kerncap_stages.manifests.source import Outcome

pytestmark = NEEDS_NVCC

KERNEL = "__global__ void lone(float* x) {\n#ifdef WIDTH\n  x[threadIdx.x] *= WIDTH;\n#endif\n}\n"

# As torch.utils.cpp_extension writes it.
NINJA = """ninja_required_version = 1.3
cxx = c++
nvcc = nvcc

flags = --compiler-options '-fPIC' -O3
dependencies = --generate-dependencies-with-compile
cuda_cflags = -DWIDTH=4 -D__CUDA_NO_HALF_OPERATORS__ -gencode=arch=compute_90,code=sm_90 $flags
cuda_post_cflags ={post}
ldflags = -shared

rule cuda_compile
  depfile = $out.d
  deps = gcc
  command = $nvcc $dependencies --dependency-output $out.d $cuda_cflags -c $in -o $out $cuda_post_cflags

rule link
  command = $cxx $in $ldflags -o $out

build k.cuda.o: cuda_compile {source}

build extension.so: link k.cuda.o

default extension.so
"""


@pytest.fixture
def extension(tmp_path):
    folder = tmp_path / "extension"
    (folder / "build/temp.linux-x86_64-cpython-314").mkdir(parents=True)
    (folder / "k.cu").write_text(KERNEL)
    return folder, nvcc(folder / "k.cu", tmp_path / "k.cubin", "-DWIDTH=4")


@pytest.mark.parametrize("place", [".", "build/temp.linux-x86_64-cpython-314"])
@pytest.mark.parametrize("given", [False, True])
def test_commands_are_read_out_of_build_ninja(store, extension, place, given):
    folder, code = extension
    path = folder / place / "build.ninja"
    path.write_text(NINJA.format(source=folder / "k.cu", post=""))
    options = Options((folder,), compile_commands=path if given else None)
    _, source = run_locate(store, publish_cuda(store, code, "_Z4lonePf"), options)
    assert source.outcome is Outcome.FOUND, source.explanation
    command = source.compile_command
    assert command.database == str(path)
    assert command.directory == str(path.parent)
    assert command.arguments[:2] == ("nvcc", "-DWIDTH=4")
    assert "--dependency-output" not in command.arguments


def test_nothing_of_build_ninja_runs(store, extension, tmp_path, monkeypatch):
    folder, code = extension
    mark = tmp_path / "ran"
    hostile = NINJA.format(source=folder / "k.cu", post=f" -Xcompiler=-wrapper,{folder}/w ; touch {mark}")
    hostile += (
        f"builddir = {mark}\nrule again\n  command = touch {mark}\n  generator = 1\n"
        "build build.ninja: again\nbuild always: again || more\n  dyndep = more\n"
    )
    (folder / "build.ninja").write_text(hostile)
    (folder / "libm.so.6").write_bytes(b"no library")
    monkeypatch.chdir(folder)
    _, source = run_locate(store, publish_cuda(store, code, "_Z4lonePf"), Options((folder,)))
    assert source.outcome is Outcome.FOUND, source.explanation
    assert "-DWIDTH=4" in source.compile_command.arguments
    assert not mark.exists()
    assert sorted(path.name for path in folder.iterdir()) == ["build", "build.ninja", "k.cu", "libm.so.6"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("include rules.ninja\n", "includes rules.ninja, which cannot be read"),
        ("rubbish\n", "ninja cannot read"),
        (
            'rule cc\n command = "nvcc -c $in\nbuild k.o: cc k.cu\n',
            "no command compiles a source file",
        ),
        (
            "\n".join(["w0 = word", *(f"w{n} = $w{n - 1}$w{n - 1}" for n in range(1, 40))]),
            "ninja cannot read",
        ),
    ],
    ids=["includes", "rubbish", "quotes", "endless"],
)
def test_a_build_ninja_that_cannot_be_read_alone_is_told(store, extension, text, reason):
    folder, code = extension
    (folder / "k.cu").write_text("#include <torch/types.h>\n" + KERNEL)
    path = folder / "build.ninja"
    path.write_text(text)
    capture = publish_cuda(store, code, "_Z4lonePf")
    _, source = run_locate(store, capture, Options((folder,)))
    assert source.compile_command is None
    assert reason in source.explanation
    with pytest.raises(UsageError, match=reason):
        run_locate(store, capture, Options((folder,), compile_commands=path))
    (folder / "k.cu").write_text(KERNEL)  # which a command of ours compiles: the file is named all the same
    _, source = run_locate(store, capture, Options((folder,)))
    assert "is assumed" in source.explanation
    assert reason in source.explanation


def test_cmakes_build_is_read_with_what_it_includes(store, extension):
    folder, code = extension
    rules, targets = NINJA.split("build k.cuda.o")
    build = folder / "build"
    (build / "CMakeFiles").mkdir()
    (build / "CMakeFiles/rules.ninja").write_text(rules.format(post=""))
    targets = f"include CMakeFiles/rules.ninja\nbuild k.cuda.o{targets}"
    (build / "build.ninja").write_text(targets.format(source=folder / "k.cu"))
    _, source = run_locate(store, publish_cuda(store, code, "_Z4lonePf"), Options((folder,)))
    assert source.compile_command.database == str(build / "build.ninja")
    assert "-DWIDTH=4" in source.compile_command.arguments


def test_the_code_is_the_captured_code_under_the_commands_of_ninja(store, extension):
    """Two units have the kernel: the one that makes the captured instructions is taken."""
    folder, code = extension
    (folder / "other").mkdir()
    (folder / "other/k.cu").write_text(KERNEL.replace("*=", "+="))
    text = NINJA.format(source=folder / "other/k.cu", post="")
    (folder / "build.ninja").write_text(text + f"build mine.o: cuda_compile {folder}/k.cu\n")
    _, source = run_locate(store, publish_cuda(store, code, "_Z4lonePf"), Options((folder,)))
    assert source.outcome is Outcome.FOUND, source.explanation
    assert source.definition.path == str(folder / "k.cu")
