"""Native parts: what is there is found, what was left out is named with the reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import kerncap_stages
from kerncap_stages.errors import DeviceError, ExitCode
from kerncap_stages.machine import native_paths


@pytest.fixture
def installation(tmp_path, monkeypatch):
    """An installation with the HSA back end, built without the CUDA one."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "kc-replay-hsa").touch()
    record = {"compiler": "gcc 12.2.0", "core": "", "hsa": "", "cuda": "cupti.h was not found", "softgpu": ""}
    (tmp_path / "build.json").write_text(json.dumps(record))
    monkeypatch.setattr(native_paths, "_PACKAGE", tmp_path)
    monkeypatch.setattr(native_paths, "LIBRARY_FOLDER", tmp_path / "lib")
    native_paths._read_build_record.cache_clear()
    yield tmp_path
    native_paths._read_build_record.cache_clear()


def test_file_that_is_there_is_found(installation):
    assert native_paths.find_native_file("kc-replay-hsa") == installation / "lib" / "kc-replay-hsa"


def test_back_end_that_was_left_out_is_named_with_the_reason(installation):  # noqa: ARG001
    with pytest.raises(DeviceError, match=r"libkerncap_cuda\.so .* cuda .* cupti\.h was not found") as caught:
        native_paths.find_native_file("libkerncap_cuda.so")
    assert "CUDA and CUPTI headers" in (caught.value.hint or "")
    assert caught.value.exit_code == ExitCode.DEVICE


def test_damaged_installation_is_told_from_a_part_left_out(installation):  # noqa: ARG001
    with pytest.raises(DeviceError, match="damaged"):
        native_paths.find_native_file("libkerncap_other.so")


def test_parts_say_why_they_are_missing(installation):  # noqa: ARG001
    reasons = {part.name: part.left_out_reason for part in native_paths.list_native_parts()}
    assert reasons == {"core": None, "softgpu": None, "hsa": None, "cuda": "cupti.h was not found"}
    assert native_paths.describe_compiler() == "gcc 12.2.0"


def test_this_installation_keeps_its_record():
    folder = Path(kerncap_stages.__file__).parent
    record = json.loads((folder / "build.json").read_text())
    for part in native_paths.list_native_parts():
        assert (part.left_out_reason is None) == (record[part.name] == "")
        if part.left_out_reason is None:
            assert all((folder / "lib" / file).exists() for file in part.files)
