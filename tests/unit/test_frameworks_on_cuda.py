"""The study of frameworks on CUDA, without a GPU: it goes on after failures, and its page names them."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

STUDIES = Path(__file__).resolve().parents[2] / "docs/case-studies"
NAMES = ("frameworks", "common", "frameworks-cuda")
FOLDER = STUDIES / "frameworks-cuda"
STEP = {"began": "2026-01-01 00:00", "wall_s": 2.0, "load": 0.5}
COST = {"wall_s": 1.5, "cpu_s": 2.5}
SIZES = {"regions": 3, "raw_bytes": 5000, "written_bytes": 2048}


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Import modules of the study by their names. Other studies have some of these names, too."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    for folder in NAMES:
        monkeypatch.syspath_prepend(STUDIES / folder)
    files = [
        path.stem
        for name in ("frameworks-cuda", "frameworks", "common")
        for path in (STUDIES / name).glob("*.py")
    ]
    others = {name: sys.modules.pop(name) for name in files if name in sys.modules}

    def load(name: str) -> ModuleType:
        return importlib.import_module(name)

    yield load
    for name in files:
        sys.modules.pop(name, None)
    sys.modules.update(others)


@pytest.fixture
def study(modules: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the module, and a study in an empty folder whose results are written there."""
    module = modules("study")
    for name in ("KERNCAP_STORE", "CUPY_ACCELERATORS", "TORCH_CUDA_ARCH_LIST", "TF_CPP_MIN_LOG_LEVEL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(module.os, "environ", {})
    monkeypatch.setattr(module, "HERE", tmp_path)
    monkeypatch.setattr(module, "describe", dict)
    monkeypatch.setattr(module, "build", lambda _study: {})
    monkeypatch.setattr(module, "find_missing", lambda group: ["cupy-cuda13x"] if group == "cupy" else [])
    monkeypatch.setattr(module, "profile_program", lambda _study, _name: {"ranking": [["k", 1, 1.0]]})
    made = module.FrameworksOnCuda(tmp_path / "folder", 1, 0)
    (made.folder / "steps").mkdir(parents=True)
    return module, made


def test_a_kernel_that_fails_is_recorded_and_the_study_goes_on(
    study: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, made = study

    def fail(_profiled: dict[str, Any]) -> dict[str, Any]:
        made.log("first").parent.mkdir(exist_ok=True)
        made.log("first").write_text("".join(f"line {number}\n" for number in range(50)))
        raise module.StepError(f"{made.folder}/a ended with 4")

    tasks = [
        module.Task("jax", "first", "jax", fail),
        module.Task("jax", "second", "jax", lambda profiled: {"found": profiled["ranking"]}),
        module.Task("cupy", "third", "cupy", fail),
    ]
    monkeypatch.setattr(module, "list_tasks", lambda _study: tasks)
    kernels = module.run_study(made)["kernels"]
    lines = kernels["first"]["failed"].splitlines()
    assert len(lines) == module.ERROR_LINES
    assert lines[-2:] == ["line 49", "FOLDER/a ended with 4"]
    assert kernels["second"]["found"] == [["k", 1, 1.0]]
    assert kernels["third"]["missing"] == ["cupy-cuda13x"]
    assert json.loads((made.folder / "results.json").read_text())["kernels"] == kernels


def test_results_are_kept_after_each_kernel(study: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    module, made = study

    def stop(_profiled: dict[str, Any]) -> dict[str, Any]:
        raise KeyboardInterrupt

    tasks = [module.Task("jax", "first", "jax", dict), module.Task("jax", "second", "jax", stop)]
    monkeypatch.setattr(module, "list_tasks", lambda _study: tasks)
    with pytest.raises(KeyboardInterrupt):
        module.run_study(made)
    assert list(json.loads((made.folder / "results.json").read_text())["kernels"]) == ["first"]
    assert not (module.HERE / "results.json").exists()  # what was published stays


def test_a_machine_without_gpu_or_packages_is_refused_before_results_are_written(
    study: Any, modules: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, made = study
    monkeypatch.undo()
    monkeypatch.setattr(module, "HERE", made.folder.parent)
    command = modules("command")
    machine: dict[str, Any] = {"rocm": "6.4"}
    monkeypatch.setattr(command, "describe_machine", lambda: machine)
    with pytest.raises(module.StepError, match="needs an NVIDIA GPU"):
        module.run_study(made)
    machine["gpu"] = "NVIDIA H200, 580.1"
    tools: list[str] = []
    monkeypatch.setattr(command.shutil, "which", lambda name: name if name in tools else None)
    with pytest.raises(module.StepError, match="kerncap-stages is not installed"):
        module.run_study(made)
    tools.append("kc-profile")
    monkeypatch.setattr(module, "find_spec", lambda _name: None)
    with pytest.raises(module.StepError, match="cupy-cuda13x"):
        module.run_study(made)
    assert not (module.HERE / "results.json").exists()


def test_a_package_that_is_installed_later_is_used(study: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    module, made = study
    tasks = [module.Task("cupy", "first", "cupy", lambda _profiled: {"found": 1})]
    monkeypatch.setattr(module, "list_tasks", lambda _study: tasks)
    assert "missing" in module.run_study(made)["kernels"]["first"]
    monkeypatch.setattr(module, "find_missing", lambda _group: [])
    made.list_steps(partial(module.run_study, made))
    assert made.step_file("first").exists()
    assert module.run_study(made)["kernels"]["first"]["found"] == 1


def test_help_needs_nothing_but_python() -> None:
    command = [sys.executable, "-S", FOLDER / "study.py", "--help"]
    text = subprocess.run(command, capture_output=True, text=True, check=True, env={}).stdout
    assert text.startswith("usage: python3 docs/case-studies/frameworks-cuda/study.py ")


def test_kernels_of_a_program_that_cannot_be_profiled_say_so(
    study: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, made = study

    def fail(_study: Any, _name: str) -> dict[str, Any]:
        raise module.StepError("no GPU")

    monkeypatch.setattr(module, "profile_program", fail)
    monkeypatch.setattr(module, "list_tasks", lambda _study: [module.Task("jax", "first", "jax", dict)])
    assert "no GPU" in module.run_study(made)["kernels"]["first"]["failed"]


def test_steps_are_listed_without_doing_any(study: Any) -> None:
    module, made = study
    names = made.list_steps(partial(module.run_study, made))
    assert not (module.HERE / "results.json").exists()
    assert len(names) == len(set(names))
    keys = [task.key for task in module.list_tasks(made)]
    assert keys[0] == "reduce_kernel"
    assert [name for name in names if name in keys] == keys


def test_each_program_of_the_study_is_there(study: Any) -> None:
    module, made = study
    for task in module.list_tasks(made):
        script = made.program(task.program)[1]
        real = FOLDER / script.relative_to(module.HERE) if script.is_relative_to(module.HERE) else script
        assert real.is_file(), real


def test_a_kernel_is_found_by_part_of_its_name(modules: Any) -> None:
    libraries = modules("library_kernels")
    profiled = {"ranking": [["void f<float>(x)", 3, 0.8], ["g", 1, 0.2]]}
    assert libraries.find_kernel(profiled, "f<") == "void f<float>(x)"
    with pytest.raises(modules("running").StepError, match=r"no kernel h in the profile; there are: void f"):
        libraries.find_kernel(profiled, "h")


@pytest.mark.parametrize(
    ("text", "is_right"), [("right, on cuda:0\n", True), ("ok\n", True), ("wrong: sum\n", False)]
)
def test_a_program_must_say_that_it_is_right(
    modules: Any, tmp_path: Path, text: str, *, is_right: bool
) -> None:
    libraries, output = modules("library_kernels"), tmp_path / "output"
    output.write_text(text)
    if is_right:
        libraries.check_right(output)
    else:
        with pytest.raises(modules("running").StepError, match="not right"):
            libraries.check_right(output)


def test_headers_of_pytorch_are_those_of_the_build(modules: Any, tmp_path: Path) -> None:
    header = tmp_path / "torch/include/ATen/native/cuda/Reduce.cuh"
    header.parent.mkdir(parents=True)
    header.touch()
    include = tmp_path / "torch/include"
    flags = f"-DNAME -isystem /cuda/include -isystem {include} -O3"
    (tmp_path / "build.ninja").write_text(f"cflags = -isystem /no\ncuda_cflags = {flags}\nldflags =\n")
    assert modules("reductions").find_include(tmp_path) == include


def test_the_unit_is_one_of_pytorchs_reductions(modules: Any) -> None:
    text = (FOLDER / "programs/reductions.cu").read_text()
    assert modules("cuda_libraries").REDUCTION.pattern.split("<")[0] == "reductions::add"
    assert text.count("gpu_reduce_kernel<") == 3  # one for each of sum, product and mean
    assert "TORCH_ASSERT_NO_OPERATORS" in text


def make_results() -> dict[str, Any]:
    verdict = {
        "passed": True,
        "mode": "bytes",
        "pre_states": 3,
        "reasons": [],
        "build": COST,
        "validate": COST,
    }
    edited = {
        "kernel": "k", "outcome": "found", "language": "cuda_cpp", "same_instructions": True, "lines": 12,
        "sizes": SIZES, "took": {"capture": COST, "locate": COST, "generate": COST}, "operator": "plus",
        "program": "p", "right": "swap addends", "wrong": "subtract", "step": STEP,
        "verdicts": {"unedited": verdict, "right": verdict, "wrong": {**verdict, "passed": False}},
    }  # fmt: skip
    coded = {
        "kernel": "k", "outcome": "no_source_trail", "sizes": SIZES, "operator": "attention",
        "took": {"capture": COST, "locate": COST}, "program": "p", "step": STEP,
        "verdicts": {"captured": verdict, "same": verdict, "silent": {**verdict, "passed": False}},
    }  # fmt: skip
    reduction = {
        "unedited": {"one_kernel": True, "same_instructions": True, "whole_unit_because": None},
        "definition": "Reduce.cuh", "files": 321, "recompile_unedited": COST, "recompile": COST,
        "unit": {"wall_s": 20.0, "cpu_s": 25.0}, "units": [COST, COST, COST], "ratio": 10.0,
    }  # fmt: skip
    judged = {
        "void f<3>()": {"exit_code": 0, "passed": True, "capture": COST, "validate": COST},
        "g": {"exit_code": 6, "passed": None, "capture": COST},
    }
    profile = {"kernels": 4, "dispatches": 9, "took": COST, "ranking": [], "step": STEP}
    return {
        "machine": {
            "processor": "a processor", "cores": 16, "memory_gib": 125.9, "gpu": "NVIDIA H200, 580.1",
            "nvcc": "13.0", "date": "2026-01-01", "commit": "c", "changed": False, "step": STEP,
        },
        "packages": {"versions": {"python": "3.12.3", "torch": "2.11.0", "cupy-cuda13x": None}, "step": STEP},
        "build": {"built": [], "wall_s": 60.0, "step": STEP},
        "profiles": {"reductions": profile, "jax": {"failed": "no jax device", "step": STEP}},
        "remarks": ["it was mended"],
        "kernels": {
            "reduce_kernel": {"group": "reductions", **edited, **reduction},
            "attention-flash": {"group": "attention", **coded},
            "training": {
                "group": "training", "kernels_of_the_step": 44, "judged": judged, "program": "training",
                "step": STEP,
            },
            "cupy-exp": {"group": "cupy", "missing": ["cupy-cuda13x"], "step": STEP},
            "jax-softmax": {"group": "jax", "failed": "line 1\nit ended with 4", "step": STEP},
        },
    }  # fmt: skip


def test_the_page_says_what_the_results_say(modules: Any) -> None:
    text = modules("page").make_files(make_results())["README.md"]
    assert (
        "| reduce_kernel | PyTorch's header, our unit | plus | 12 | the same | PASS | PASS | FAIL |" in text
    )
    assert "| attention-flash | PyTorch | attention | `no_source_trail` | PASS | PASS | FAIL |" in text
    assert "| `g` | none (exit code 6) | 1.5 s (2.5 s) |  |" in text
    assert "**10.0 times** the processor time" in text
    assert "the captured kernel only" in text
    assert "python 3.12.3, torch 2.11.0" in text
    assert "44 kernels" in text


def test_the_page_names_what_failed_and_what_is_missing(modules: Any) -> None:
    text = modules("page").make_files(make_results())["README.md"]
    assert "**These failed:** profile of jax, jax-softmax." in text
    assert "- cupy-exp: `cupy-cuda13x`" in text
    assert "it was mended\n" in text
    assert "line 1\nit ended with 4\n```" in text


def test_the_page_says_if_the_whole_unit_is_compiled(modules: Any) -> None:
    results = make_results()
    results["kernels"]["reduce_kernel"]["unedited"] = {
        "one_kernel": False, "same_instructions": True, "whole_unit_because": "it has other instructions",
    }  # fmt: skip
    text = modules("page").make_files(results)["README.md"]
    assert "the whole unit, too: it has other instructions." in text


def test_a_page_of_a_run_that_was_stopped_shows_what_is_there(modules: Any) -> None:
    results = make_results()
    results["kernels"] = {"jax-softmax": results["kernels"]["jax-softmax"]}
    assert "## Kernels with source" not in modules("page").make_files(results)["README.md"]
