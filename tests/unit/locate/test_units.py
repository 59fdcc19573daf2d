"""Which units are asked whether they make a kernel, where many include its header."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kerncap_stages.compilers import nvcc
from kerncap_stages.compilers.compile_commands import CompileCommand
from kerncap_stages.compilers.consulted import Consulted
from kerncap_stages.compilers.nvcc import NvccTool
from kerncap_stages.compilers.objects import names_kernel
from kerncap_stages.locate.trials import MAX_TRIALS
from kerncap_stages.locate.units import MAX_UNITS, choose_command
from kerncap_stages.locate.wanted import Wanted

SYMBOL = "_Z1kILi69EEvPf"


@dataclass
class Compiler:
    """Toolchain and compiler in one: the units of some numbers yield the kernel."""

    yielding: set[int]
    asked: list[int] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def choose_flags(self, _command, _defines=()):
        return ()

    def find_tool(self, _name, *, trusted=False):  # noqa: ARG002
        return self

    def yields(self, unit, *_rest):
        number = int(unit.stem)
        with self.lock:
            self.asked.append(number)
        return number in self.yielding

    def compile_device_code(self, unit, *_rest):
        return b"captured" if unit.stem == "5" else b"other"

    def read_kernel_code(self, code_object, _symbol):
        return code_object


def chosen(tmp_path, compiler, count):
    commands = []
    for number in range(count):
        file = tmp_path / f"{number}.cu"
        file.write_text(f'#include "k.cuh"\nMAKE({number})\n')
        words = ("nvcc", "-c", str(file), "-o", f"{number}.o")
        commands.append(CompileCommand(file, tmp_path, words))
    wanted = Wanted(compiler, SYMBOL, "k", "sm_90", b"captured", (), None)
    found = choose_command(commands, wanted, Consulted())
    return None if found is None else int(found.file.stem)


def test_units_are_asked_until_one_makes_the_kernel(tmp_path):
    compiler = Compiler({20})
    assert chosen(tmp_path, compiler, 70) == 20
    assert sorted(compiler.asked) == list(range(3 * MAX_TRIALS))


def test_not_all_of_very_many_are_asked(tmp_path):
    compiler = Compiler(set())
    assert chosen(tmp_path, compiler, 70) is None
    assert sorted(compiler.asked) == list(range(MAX_UNITS))


def test_of_those_that_make_it_the_one_of_the_captured_instructions_is_taken(tmp_path):
    assert chosen(tmp_path, Compiler({2, 5}), 70) == 5


def test_the_object_file_of_a_build_tells_the_unit(tmp_path):
    (tmp_path / "69.o").write_bytes(b"\x7fELF" + SYMBOL.encode() + b"\0")
    (tmp_path / "3.o").write_bytes(b"\x7fELF" + SYMBOL.encode() + b"more\0")
    compiler = Compiler({69})
    assert chosen(tmp_path, compiler, 70) == 69
    assert compiler.asked == [69]


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (("-o", "k.o"), True),
        (("--output-file=k.o",), True),
        (("-o",), False),
        (("-o", "gone.o"), False),
        (("-o", "k" * 5000), False),
        (("-o", "k\0.o"), False),
    ],
    ids=lambda given: "".join(given)[:8] if isinstance(given, tuple) else str(given),
)
def test_where_the_object_file_of_a_command_lies(tmp_path, words, answer):
    (tmp_path / "k.o").write_bytes(SYMBOL.encode() + b"\0")
    consulted = Consulted()
    command = CompileCommand(tmp_path / "k.cu", tmp_path, ("nvcc", *words))
    assert names_kernel(command, SYMBOL, consulted) is answer
    assert (tmp_path / "k.o" in consulted.digests) is answer


def test_headers_of_the_builds_own_host_compiler_are_no_local_files(tmp_path, monkeypatch):
    """Where they lie is asked of that one."""
    commands = []

    class Result:
        returncode = 0
        stderr = f"#include <...> search starts here:\n {tmp_path}/gcc/include\nEnd of search list.\n"

    def run(words, _folder):
        commands.append(words)
        if "-M" in words:
            rule = Path(words[words.index("-o") + 1])
            rule.write_text(
                f"k.o : {tmp_path}/k.cu \\\n {tmp_path}/k.h \\\n {tmp_path}/gcc/include/limits.h\n"
            )
        return Result()

    monkeypatch.setattr(nvcc, "run_compiler", run)
    flags = ("-ccbin=/opt/gcc/bin/g++", f"-I{tmp_path}", "-O3")
    headers = NvccTool("nvcc").list_headers(flags, tmp_path / "k.cu", tmp_path, "sm_90")
    assert headers.list_local(tmp_path / "k.cu") == [tmp_path / "k.h"]
    assert "-ccbin=/opt/gcc/bin/g++" in commands[1]
    assert f"-I{tmp_path}" not in commands[1]
