"""Builds under sanitizers name a meson; they are made again where it is another one."""

import importlib.util
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parents[2] / "tools/sanitize.py"


@pytest.fixture
def sanitize():
    spec = importlib.util.spec_from_file_location("sanitize", TOOL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("named", "is_made_again"), [("/there/bin/meson", False), ("/gone/bin/meson", True)])
def test_a_build_of_another_meson_is_made_again(sanitize, tmp_path, named, is_made_again):
    called = []

    def call(*words, **_variables):
        called.append(words)

    for name in sanitize.BUILDS:
        build = tmp_path / f"sanitize-softgpu-{name}"
        build.mkdir()
        (build / "build.ninja").write_text(f"command = {named} --internal regenerate\n")
    sanitize.sanitize_softgpu(tmp_path, tmp_path, Path("/there/bin/meson"), call)
    set_up = [words for words in called if "setup" in words]
    assert len(set_up) == (len(sanitize.BUILDS) if is_made_again else 0)
    assert all(words[0] == Path("/there/bin/meson") for words in set_up)
