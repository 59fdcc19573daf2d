"""CUDA kernels without source: projects of their PTX, and what is said where there is none."""

from __future__ import annotations

import subprocess

from cuda_captures import nvcc, publish_cuda
from cuda_projects import NEEDS_NVCC, PLAIN, SCALE, make, project_of

from kerncap_stages.code.cubin import find_kernel_code
from kerncap_stages.compilers.cuda_tools import find_cuda_tool
from kerncap_stages.generate.engine import run_generate
from kerncap_stages.locate.locating import run_locate
from kerncap_stages.locate.options import Options
from kerncap_stages.manifests.kernel import Language
from kerncap_stages.manifests.source import Outcome
from kerncap_stages.project.checkout import check_out

pytestmark = NEEDS_NVCC


def test_a_kernel_without_source_is_edited_as_ptx(store, tree, tmp_path):
    folder, code = tree
    cache = tmp_path / "cache"
    for width in (2, 4):  # two of the same name: the one that makes the captured instructions
        (cache / str(width)).mkdir(parents=True)
        flags = (f"-DWIDTH={width}", f"-I{folder}/include", "-std=c++17", "-ptx")
        nvcc(folder / "src/main.cu", cache / f"{width}/main.ptx", *flags)
    capture = publish_cuda(store, code, SCALE)
    digest, source = run_locate(store, capture, Options((cache,)))
    assert source.outcome is Outcome.FOUND, source.explanation
    assert source.language is Language.ASSEMBLY
    assert source.definition.path == str(cache / "4/main.ptx")
    project = project_of(store, digest, tmp_path / "project")
    variant = project / "kernel_variant.ptx"
    assert variant.read_bytes() == (cache / "4/main.ptx").read_bytes()
    assert make(project, "assemble").returncode == 0
    assert find_kernel_code((project / "optimized.cubin").read_bytes(), SCALE) == find_kernel_code(
        code, SCALE
    )
    text = variant.read_text()
    variant.write_text(
        text.replace("mul.rn.f32", "add.rn.f32")
        if "mul.rn.f32" in text
        else text.replace("mul.f32", "add.f32")
    )
    assert make(project, "assemble").returncode == 0
    assert find_kernel_code((project / "optimized.cubin").read_bytes(), SCALE) != find_kernel_code(
        code, SCALE
    )
    variant.write_text("rubbish\n")
    failed = make(project, "assemble")
    assert failed.returncode != 0
    assert "kernel_variant.ptx" in failed.stderr
    assert not (project / "optimized.cubin").exists()


def test_without_source_and_ptx_the_project_says_what_to_do(store, tree, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    digest, source = run_locate(store, publish_cuda(store, tree[1], SCALE), Options((empty,)))
    assert source.outcome is Outcome.NOT_FOUND
    assert "no PTX" in source.explanation
    made, reproducer = run_generate(store, digest)
    assert not reproducer.can_recompile
    check_out(store, made, reproducer, tmp_path / "project", force=False)
    failed = make(tmp_path / "project", "recompile")
    assert failed.returncode != 0
    assert "PTX" in "".join(reproducer.missing)


def test_machine_code_alone_is_there_to_be_read(store, tree, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    digest, _ = run_locate(store, publish_cuda(store, tree[1], SCALE), Options((empty,)))
    project = project_of(store, digest, tmp_path / "project")
    listing = (project / "kernel.sass").read_text()
    assert f".text.{SCALE}:" in listing
    assert "STG.E" in listing  # it stores
    assert f".text.{PLAIN}:" not in listing
    assert "`kernel.sass` shows the kernel's machine code" in (project / "README.md").read_text()


def test_the_ptx_in_an_object_file_or_a_program_is_edited(store, tree, tmp_path):
    folder, code = tree
    both = "-gencode=arch=compute_90,code=[compute_90,sm_90]"
    words = ["-DWIDTH=4", f"-I{folder}/include", "-std=c++17", both, "-c", folder / "src/main.cu"]
    made = [find_cuda_tool("nvcc"), *words, "-o", tmp_path / "main.o"]
    subprocess.run(made, check=True, capture_output=True)
    _, source = run_locate(store, publish_cuda(store, code, SCALE), Options((tmp_path / "main.o",)))
    assert source.language is Language.ASSEMBLY, source.explanation
    assert source.definition.path.startswith(f"{tmp_path}/main.o:")
    assert source.explanation.endswith(
        "the kernel's PTX can be edited"
    )  # this ptxas makes the captured instructions


def test_line_information_tells_the_files_and_holds_the_ptx(store, tree, tmp_path):
    folder, _ = tree
    flags = ("-DWIDTH=4", f"-I{folder}/include", "-std=c++17", "-lineinfo")
    code = nvcc(folder / "src/main.cu", tmp_path / "main.cubin", *flags)
    empty = tmp_path / "empty"
    empty.mkdir()
    away = folder.with_name("away")
    folder.rename(away)
    try:
        digest, source = run_locate(store, publish_cuda(store, code, SCALE), Options((empty,)))
    finally:
        away.rename(folder)
    assert source.outcome is Outcome.FOUND
    assert source.language is Language.ASSEMBLY
    assert f"was compiled from {folder}/src/" in source.explanation
    project = project_of(store, digest, tmp_path / "project")
    assert make(project, "assemble").returncode == 0
    assert find_kernel_code((project / "optimized.cubin").read_bytes(), SCALE) == find_kernel_code(
        code, SCALE
    )
    _, source = run_locate(store, publish_cuda(store, code, SCALE), Options((empty,)), fresh=True)
    assert source.definition.path == str(folder / "src/kernels/scale.cuh")


def test_without_line_information_the_flag_that_gives_it_is_named(store, tree, tmp_path):
    (tmp_path / "empty").mkdir()
    _, source = run_locate(store, publish_cuda(store, tree[1], SCALE), Options((tmp_path / "empty",)))
    assert "build the program with -lineinfo" in source.explanation
