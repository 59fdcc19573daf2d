"""The library that is preloaded into programs: what they find with it, and that they can do without."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kerncap_stages.collect.rtc_records import RtcRecords
from kerncap_stages.machine.native_paths import find_native_file

FUNCTIONS = ("amd_comgr_do_action", "nvrtcCreateProgram")
# Asks all libraries, those after the caller's, and the program with all that it is linked to.
ASKED = """
import ctypes
from ctypes.util import find_library
dlsym = ctypes.CDLL(None).dlsym
dlsym.restype, dlsym.argtypes = ctypes.c_void_p, (ctypes.c_void_p, ctypes.c_char_p)
print([dlsym(handle, NAME) for handle in (None, -1, ctypes.CDLL(None)._handle)])
"""


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_program_without_a_compiler_finds_none(tmp_path, name):
    records = RtcRecords(tmp_path / "records")
    script = ASKED.replace("NAME", repr(name.encode()))
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**records.make_environment({}), "LD_PRELOAD": str(find_native_file("libkerncap_rtc.so"))},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "[None, None, None]\n"


def test_a_program_may_switch_off_caches_and_records_itself(tmp_path):
    records = RtcRecords(tmp_path / "records")
    assert records.make_environment({"KERNCAP_RTC": "0"}) == {}
    assert "CUPY_CACHE_IN_MEMORY" not in records.make_environment({"CUPY_CACHE_IN_MEMORY": "0"})
