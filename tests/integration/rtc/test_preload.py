"""The library that is preloaded into programs: what they find with it, and that they can do without."""

from __future__ import annotations

import hashlib
import subprocess
import sys

import pytest

from kerncap_stages.collect.rtc_records import RtcRecords
from kerncap_stages.digest import Digest
from kerncap_stages.machine.native_paths import find_native_file
from kerncap_stages.store import Store

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


# Stands for libnvrtc. Its programs have its own address: it refuses those of another library.
COMPILER = """
#include <stddef.h>
#include <string.h>
static int mine;
#define CHECK(program) if ((program) != &mine) return 5
int nvrtcCreateProgram(void** program, const char* source, const char* name, int headers, const char** texts,
                       const char** names) {
  *program = &mine;
  return 0;
}
int nvrtcAddNameExpression(void* program, const char* name) { CHECK(program); return 0; }
int nvrtcCompileProgram(void* program, int n, const char** options) { CHECK(program); return 0; }
int nvrtcDestroyProgram(void** program) { CHECK(*program); *program = NULL; return 0; }
int nvrtcVersion(int* major, int* minor) { *major = 13; *minor = 0; return 0; }
int nvrtcGetCUBINSize(void* program, size_t* size) { CHECK(program); *size = 0; return 0; }
int nvrtcGetCUBIN(void* program, char* code) { return 6; }
int nvrtcGetPTXSize(void* program, size_t* size) { CHECK(program); *size = sizeof TEXT; return 0; }
int nvrtcGetPTX(void* program, char* code) { memcpy(code, TEXT, sizeof TEXT); return 0; }
"""
TABLE = """
int nvrtcCreateProgram(void**, const char*, const char*, int, const char**, const char**);
int nvrtcCompileProgram(void*, int, const char**);
void* create(void) { return (void*)&nvrtcCreateProgram; }
void* compile(void) { return (void*)&nvrtcCompileProgram; }
"""
CALLS = """
import ctypes, sys
FIRST, SECOND, TABLE = (ctypes.CDLL(path) for path in sys.argv[1:])
def run(create, compile, source):
    program = ctypes.c_void_p()
    print(create(ctypes.byref(program), source, None, 0, None, None), compile(program, 0, None))
run(FIRST.nvrtcCreateProgram, FIRST.nvrtcCompileProgram, b"first source")
run(SECOND.nvrtcCreateProgram, SECOND.nvrtcCompileProgram, b"second source")
for each in (TABLE.create, TABLE.compile):
    each.restype = ctypes.c_void_p
pointer, number = ctypes.c_void_p, ctypes.c_int
create = ctypes.CFUNCTYPE(number, pointer, ctypes.c_char_p, pointer, number, pointer, pointer)(TABLE.create())
compile = ctypes.CFUNCTYPE(number, pointer, number, pointer)(TABLE.compile())
run(create, compile, b"third")
"""


def build(folder, name, text, *flags):
    library = folder / f"lib{name}.so"
    words = ["gcc", "-shared", "-fPIC", "-w", "-x", "c", "-", "-x", "none", "-o", library, *flags]
    subprocess.run(words, input=text, text=True, check=True)
    return library


def test_each_library_gets_its_own_programs_back(tmp_path):
    """Two compilers in one process, and one whose functions are called through addresses, as PyTorch does."""
    records = RtcRecords(tmp_path / "records")
    first, second, linked = (
        build(tmp_path, name, COMPILER, f'-DTEXT="{name}"') for name in ("first", "second", "linked")
    )
    table = build(tmp_path, "table", TABLE, linked)
    done = subprocess.run(
        [sys.executable, "-c", CALLS, first, second, table],
        env={**records.make_environment({}), "LD_PRELOAD": str(find_native_file("libkerncap_rtc.so"))},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "0 0\n" * 3, done.stderr
    assert records.read_errors() == []
    with Store.open(tmp_path / "store").begin_transaction() as transaction:
        found = [
            records.find((Digest(hashlib.sha256(name).hexdigest()),), transaction)
            for name in (b"first", b"second", b"linked")
        ]
        texts = [bytes(transaction.get(each.source.text.digest)) for each in found]
    assert texts == [b"first source", b"second source", b"third"]


def test_a_program_may_switch_off_caches_and_records_itself(tmp_path):
    records = RtcRecords(tmp_path / "records")
    assert records.make_environment({"KERNCAP_RTC": "0"}) == {}
    assert "CUPY_CACHE_IN_MEMORY" not in records.make_environment({"CUPY_CACHE_IN_MEMORY": "0"})
