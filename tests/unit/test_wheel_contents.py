"""What `make wheel` refuses to hand out."""

from __future__ import annotations

import fnmatch
import importlib.util
import re
import shutil
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kerncap_stages.machine.native_paths import LIBRARY_FOLDER

if TYPE_CHECKING:
    from types import ModuleType

TOOL = Path(__file__).parents[2] / "tools/wheel_contents.py"
INFO = "kerncap_stages-1.dist-info"
METADATA = """Metadata-Version: 2.4
Name: kerncap-stages
Version: 1
Summary: One
Author: Somebody
Requires-Python: >=3.11
Requires-Dist: numpy
License-Expression: MIT AND Apache-2.0 AND BSD-3-Clause
License-File: LICENSE
"""
BUILDER = Path("/home/builder")


@pytest.fixture(scope="module")
def contents() -> ModuleType:
    spec = importlib.util.spec_from_file_location("wheel_contents", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def faults(
    contents: ModuleType, folder: Path, members: dict[str, bytes], metadata: str = METADATA
) -> list[str]:
    """Faults of a wheel with the libraries that are installed here, and ``members``."""
    wheel = folder / "made-up.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in (*contents.IN_PROGRAMS, *contents.REPLAYERS):
            archive.write(LIBRARY_FOLDER / name, f"kerncap_stages/lib/{name}")
        archive.writestr(f"{INFO}/METADATA", metadata)
        archive.writestr(f"{INFO}/licenses/LICENSE", "text")
        archive.writestr("kerncap_stages.libs/", "")  # auditwheel lists folders, too
        archive.writestr("kerncap_stages.libs/libzstd-0123abcd.so.1", b"\x7fELF")
        for name, content in members.items():
            archive.writestr(name, content)
    found: list[str] = contents.faults(wheel, folder / "unpacked", (BUILDER,))
    shutil.rmtree(folder / "unpacked")
    # They were built for this machine: auditwheel has not seen them.
    return [fault for fault in found if "does not use the libraries that the wheel brings" not in fault]


def test_a_good_wheel_has_no_fault(contents: ModuleType, tmp_path: Path) -> None:
    assert faults(contents, tmp_path, {}) == []


@pytest.mark.parametrize(
    ("name", "content", "fault"),
    [
        ("kerncap_stages/__pycache__/a.cpython-311.pyc", b"", "bytecode"),
        ("kerncap_stages.libs/libcuda-0123abcd.so.1", b"", "not meant to be brought"),
        (
            "kerncap_stages/lib/other",
            b"\0/home/builder/cache/native.cpp\0",
            "kerncap_stages/lib/other names /home/builder",
        ),
    ],
)
def test_what_does_not_belong_is_named(
    contents: ModuleType, tmp_path: Path, name: str, content: bytes, fault: str
) -> None:
    (found,) = faults(contents, tmp_path, {name: content})
    assert fault in found


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("Author: Somebody\n", "no Author in its metadata"),
        (" AND BSD-3-Clause", "its licence is said to be MIT AND Apache-2.0"),
        ("Requires-Dist: numpy\n", "no Requires-Dist in its metadata"),
    ],
)
def test_metadata_that_lack_a_line_are_named(
    contents: ModuleType, tmp_path: Path, line: str, fault: str
) -> None:
    assert faults(contents, tmp_path, {}, METADATA.replace(line, "")) == [fault]


def test_a_licence_without_its_text_is_named(contents: ModuleType, tmp_path: Path) -> None:
    metadata = METADATA + "License-File: libzstd\n"
    assert faults(contents, tmp_path, {}, metadata) == ["no text of the licence libzstd"]


def test_each_pattern_of_the_readme_is_of_one_file_that_make_wheel_writes() -> None:
    platform = "manylinux_2_35_x86_64"
    made = [f"kerncap_stages-0.1.0-{tag}-{platform}.whl" for tag in ("cp311-cp311", "cp312-abi3")]
    made.append("kerncap_stages-0.1.0.tar.gz")
    readme = (TOOL.parents[1] / "README.md").read_text()
    patterns = set(re.findall(r"pip install dist/(\S+)", readme))
    assert sorted(fnmatch.filter(made, pattern) for pattern in patterns) == sorted([name] for name in made)
