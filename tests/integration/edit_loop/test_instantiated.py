"""Templates of headers are instantiated once, as long as an edit cannot change what they find."""

from __future__ import annotations

from typing import TYPE_CHECKING

from made_in_projects import build_unit, make

if TYPE_CHECKING:
    from pathlib import Path

    from stages import Stages

# More functions than WORTH_FUNCTIONS. `step` is looked for by its argument's namespace, too.
LIBRARY = "".join(
    (
        "#pragma once\n#include <hip/hip_runtime.h>\n",
        "/*" + "much text\n" * 400_000 + "*/\n",
        """
namespace lib {
struct number { float value; };
template <class T> __device__ T step(T x) { return x; }
template <int N, class T> __device__ T add(T x) {
  if constexpr (N < 1024) return {add<2 * N>(x).value + add<2 * N + 1>(x).value};
  else return step(x);
}
}
""",
    )
)
KERNEL = """#pragma once
#include "library.hpp"
namespace app {
template <int N> __global__ void __launch_bounds__(64) scale(float* x) {
  const lib::number sum = lib::add<N>(lib::number{x[threadIdx.x]});
  x[threadIdx.x] = sum.value + 1;
}
}
"""
OVERLOAD = "namespace lib { __device__ inline number step(number x) { return {x.value * 2}; } }\n"
UNIT = """#include "kernel.hpp"
int main() {
  float* x;
  if (hipMalloc(&x, 256) || hipMemset(x, 63, 256)) return 2;
  app::scale<1><<<1, 64>>>(x);
  return hipDeviceSynchronize();
}
"""


def extract(stages: Stages, tree: Path, kernel: str) -> Path:
    """Build the program, and make a project of its kernel."""
    app = build_unit(tree, {"library.hpp": LIBRARY, "kernel.hpp": kernel, "unit.hip": UNIT})
    (capture,) = stages.capture("scale", app)
    source = stages.run("locate", capture, "--source-dir", tree).must().digests[0]
    project = stages.folder / "project"
    stages.run("generate", source, "-o", project).must()
    return project


def judge(stages: Stages, project: Path) -> tuple[str, str]:
    """Compile and judge; return what was said and the verdict."""
    told = make(stages, project, "recompile", "validate-variant").stderr
    return told, "PASS" if "Result: PASS" in told else "FAIL" if "Result: FAIL" in told else told


def test_templates_are_instantiated_once_until_an_edit_may_change_them(stages: Stages, tmp_path: Path):
    project = extract(stages, tmp_path / "tree", KERNEL)
    variant, kept = project / "kernel_variant.cpp", project / "instantiated.pch"
    assert judge(stages, project)[1] == "PASS"
    made = kept.stat().st_mtime_ns

    # Edits in the kernel's body.
    text = variant.read_text()
    for edit, verdict in (("1 + sum.value", "PASS"), ("sum.value + 2", "FAIL")):
        variant.write_text(text.replace("sum.value + 1", edit))
        told, found = judge(stages, project)
        assert found == verdict
        assert "-include-pch -Xclang instantiated.pch" in told
        assert kept.stat().st_mtime_ns == made

    # A function that the headers' templates find: they are instantiated with it.
    variant.write_text(text.replace("namespace app {", f"{OVERLOAD}namespace app {{"))
    told, found = judge(stages, project)
    assert "kernel_variant.cpp declares other functions than before" in told
    assert "-include-pch -Xclang precompiled.pch" in told
    assert found == "FAIL"

    # As soon as they are the same as before, so is the code.
    variant.write_text(text)
    assert judge(stages, project)[1] == "PASS"

    # What kc-locate has compared holds for the headers, the flags and the target of then.
    (header,) = (project / "deps").rglob("library.hpp")
    header.write_text(LIBRARY.replace("step(T x) { return x; }", "step(T x) { return {x.value + 1}; }"))
    told, found = judge(stages, project)
    assert " instantiated.pch" not in told
    assert found == "FAIL"
    header.write_text(LIBRARY)
    make(stages, project, "clean", "recompile").check_returncode()
    variant.touch()
    assert " instantiated.pch" in make(stages, project, "recompile").stderr
    variant.touch()
    assert "instantiated.pch" not in make(stages, project, "recompile", "HIPCC=hipcc -DMORE=1").stderr
    make(stages, project, "clean").check_returncode()
    assert not kept.exists()


def test_templates_that_find_functions_of_the_edited_file_are_not_instantiated_before(
    stages: Stages, tmp_path: Path
):
    project = extract(
        stages, tmp_path / "tree", KERNEL.replace("namespace app {", f"{OVERLOAD}namespace app {{", 1)
    )
    assert (project / "precompiled.hpp").exists()
    assert not (project / "instantiated.hpp").exists()
    assert judge(stages, project)[1] == "PASS"
    variant = project / "kernel_variant.cpp"
    variant.write_text(variant.read_text().replace("x.value * 2", "x.value * 3"))
    assert judge(stages, project)[1] == "FAIL"


def test_without_many_functions_nothing_is_instantiated_before(stages: Stages, tmp_path: Path):
    kernel = KERNEL.replace("lib::add<N>(lib::number{x[threadIdx.x]})", "{x[threadIdx.x] * N}")
    project = extract(stages, tmp_path / "tree", kernel)
    assert (project / "precompiled.hpp").exists()
    assert not (project / "instantiated.hpp").exists()
