"""In which order the places of CUPTI are told."""

from __future__ import annotations

from kerncap_stages.machine.cupti import find_cupti_libraries


def test_the_newest_cuda_comes_first_wherever_it_lies(tmp_path):
    older, newer = tmp_path / "toolkit/lib64", tmp_path / "packages/nvidia/cu13/lib"
    same = tmp_path / "packages/nvidia/cuda_cupti/lib"
    for folder in (older, newer, same):
        folder.mkdir(parents=True)
    (older / "libcupti.so.2024.1.1").touch()
    (older / "libcupti.so.12").symlink_to("libcupti.so.2024.1.1")
    (newer / "libcupti.so.13").touch()
    (same / "libcupti.so.13").symlink_to(newer / "libcupti.so.13")
    base = {"CUDA_HOME": str(tmp_path / "toolkit"), "PYTHONPATH": str(tmp_path / "packages")}
    found = [path for path in find_cupti_libraries(base) if path.is_relative_to(tmp_path)]
    assert found == [newer / "libcupti.so.13", older / "libcupti.so.12"]
