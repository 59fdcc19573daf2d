"""The pages of the case studies say what the results beside them say."""

from __future__ import annotations

import importlib
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

STUDIES = Path(__file__).resolve().parents[2] / "docs/case-studies"


@pytest.fixture(params=["llama", "composable-kernel", "llama-cuda", "frameworks", "frameworks-cuda"])
def study(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a study's folder, and the module that writes its page. It is in no package."""
    folder = STUDIES / request.param
    monkeypatch.syspath_prepend(STUDIES / "common")
    monkeypatch.syspath_prepend(folder)
    names = ("page", "pages", "plots")  # benchmarks/ has modules of these names, too
    others = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    yield folder, importlib.import_module("page")
    for name in names:
        sys.modules.pop(name, None)
    sys.modules.update(others)


def test_each_kernel_has_a_program_that_cmake_builds(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = STUDIES / "composable-kernel"
    monkeypatch.syspath_prepend(STUDIES / "common")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "kernels", raising=False)  # the study on llama.cpp has one, too
    programs = {kernel.program for kernel in importlib.import_module("kernels").KERNELS}
    monkeypatch.delitem(sys.modules, "kernels")
    assert {path.stem for path in (folder / "programs").glob("*.cpp")} == programs
    found = re.search(r"foreach\(program ([^)]+)\)", (folder / "programs/CMakeLists.txt").read_text())
    assert found is not None
    assert set(found[1].split()) == programs


def test_page_and_pictures_are_what_the_results_give(study: Any) -> None:
    """`make study ARGS=--page` and its like write them again."""
    folder, page = study
    files = page.make_files(json.loads((folder / "results.json").read_text()))
    assert {path.name for path in folder.glob("*.svg")} == {name for name in files if name.endswith(".svg")}
    assert {name: (folder / name).read_text() for name in files} == files
