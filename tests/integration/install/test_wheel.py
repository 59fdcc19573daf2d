"""The wheel that `make` built and installed here."""

from __future__ import annotations

import sys
import zipfile
from importlib import metadata
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile

from kerncap_stages.machine.native_paths import LIBRARY_FOLDER

# Called by the recorder in the program's Python.
TOLD = ("kerncap_begin_trial", "kerncap_end_trial", "kerncap_expects_capture")

NVRTC = {
    f"nvrtc{each}" for each in ("CreateProgram", "AddNameExpression", "CompileProgram", "DestroyProgram")
}


@pytest.fixture(scope="module")
def wheel() -> Path:
    (found,) = (Path(sys.prefix) / "dist").glob("*.whl")
    return found


def test_it_holds_no_bytecode(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "kerncap_stages/store/__init__.py" in names
    assert [name for name in names if name.endswith(".pyc")] == []


def test_its_metadata_says_what_it_is_and_for_whom(wheel: Path) -> None:
    about = metadata.metadata("kerncap-stages")
    assert about["License-Expression"] == "MIT"
    assert about["Requires-Python"] == ">=3.11"
    assert about["Author"] == "The kerncap-stages authors"
    assert "Operating System :: POSIX :: Linux" in about.get_all("Classifier", [])
    # One Python and one machine: it holds an extension module.
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    assert wheel.name == f"kerncap_stages-{about['Version']}-{tag}-{tag}-linux_x86_64.whl"


def section(name: str, section_name: str) -> Any:
    with (LIBRARY_FOLDER / name).open("rb") as file:
        return ELFFile(BytesIO(file.read())).get_section_by_name(section_name)


@pytest.mark.parametrize(
    "name", ["libkerncap_cuda.so", "libkerncap_hsa.so", "libkerncap_rtc.so", "libkerncap_softgpu.so"]
)
def test_what_is_loaded_into_programs_needs_little(name: str) -> None:
    needed = {tag.needed for tag in section(name, ".dynamic").iter_tags() if tag.entry.d_tag == "DT_NEEDED"}
    assert needed <= {
        "ld-linux-x86-64.so.2", "libc.so.6", "libgcc_s.so.1", "libm.so.6", "libstdc++.so.6",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "entry_points"),
    [
        ("libkerncap_cuda.so", {"InitializeInjection", *TOLD}),
        ("libkerncap_hsa.so", {"OnLoad", "OnUnload", "rocprofiler_set_api_table", *TOLD}),
        ("libkerncap_rtc.so", {"amd_comgr_do_action", *NVRTC, "dlsym"}),
    ],
)
def test_what_is_loaded_into_programs_shows_its_entry_points_alone(name: str, entry_points: set[str]) -> None:
    symbols = section(name, ".dynsym").iter_symbols()
    assert {symbol.name for symbol in symbols if symbol.entry.st_shndx != "SHN_UNDEF"} == entry_points
