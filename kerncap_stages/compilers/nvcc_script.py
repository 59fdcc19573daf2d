"""Compiles one kernel of a CUDA unit that has many.

nvcc's front end compiles the whole unit for link-time optimisation. nvlink drops the other kernels before it
optimises, and ptxas assembles what is left.

kc-locate runs this file, and projects have a copy of it: it needs Python alone.
"""

from __future__ import annotations

import argparse
import re
import string
import subprocess
import sys
import tempfile
from pathlib import Path

_FRONT_END = re.compile(r'\bcicc"? ')  # in nvcc's plan; its older versions do not quote it
# nvlink's names of cicc's options. What is not listed here is stored in the code that the front end makes.
_PASSED_ON = {"-ftz": "-ftz", "-prec_div": "-prec-div", "-fmad": "-fma"}
# Any part of a name selects a variable, so that these select all: the program may write them.
_ALL_VARIABLES = ",".join(f"{string.ascii_letters}{string.digits}_")
# The front end marks what is static in a unit. The number is the length of the mark.
_STATIC = re.compile(r"(?<![\w$])__nv_static_(\d{1,4})_")
_HIDDEN_ENTRY = re.compile(r"^\.entry\b", re.MULTILINE)
_ENTRY = re.compile(r"\.entry\s+([\w$]+)")


class _NotAloneError(Exception):
    """Why a kernel cannot be compiled alone."""


def compile_alone(kernel: str, output: Path, words: list[str], folder: Path) -> None:
    """Compile one kernel of a unit.

    kernel: the end of the kernel's symbol.
    words: nvcc's command for the unit, without the form and the name of the output.
    folder: for temporary files.
    Raises _NotAloneError if that is not possible.
    """
    bin_folder, nvlink_words = _read_plan(words)
    nvlink = bin_folder / "nvlink"
    if not nvlink.is_file():
        raise _NotAloneError(f"there is no nvlink in {bin_folder}")
    nvvm = _find_nvvm(bin_folder.parent, folder)
    whole, alone, named = folder / "unit.ltoir", folder / "alone.ptx", folder / "kernel.ptx"
    target = next((word for word in words if word.startswith("-arch=sm_")), None)
    if target is None:
        raise _NotAloneError("the command names no GPU target")
    front_end = [word.replace("-arch=sm_", "-arch=lto_") if word is target else word for word in words]
    print(_run([*front_end, "-dlto", "-ltoir", "-o", str(whole)]), end="", file=sys.stderr)
    link = [str(nvlink), target, "-lto", *nvlink_words, f"-nvvmpath={nvvm}", f"-kernels-used={kernel}"]
    _run([*link, f"-variables-used={_ALL_VARIABLES}", "-emit-ptx", "-o", str(alone), str(whole)])
    text = name_as_alone(alone.read_text(encoding="utf-8", errors="surrogateescape"))
    if not any(entry.endswith(kernel) for entry in _ENTRY.findall(text)):
        raise _NotAloneError(f"the unit has no kernel {kernel}")
    named.write_text(text, encoding="utf-8", errors="surrogateescape")
    at = words.index("-x")  # nvcc knows PTX by the name of the file
    _run([*words[:at], *words[at + 2 : -1], "-cubin", "-o", str(output), str(named)])


def name_as_alone(text: str) -> str:
    """Give what is static in a unit the names that it has without link-time optimisation."""
    found = _STATIC.search(text)
    while found is not None:
        mark = text[found.start() : found.end() + int(found[1]) + 1]
        text = re.sub(rf"(?<![\w$]){re.escape(mark)}", "", text)
        found = _STATIC.search(text)
    return _HIDDEN_ENTRY.sub(".visible .entry", text)


def _read_plan(words: list[str]) -> tuple[Path, list[str]]:
    """Ask nvcc what it would run. Returns the folder of its programs, and options for nvlink."""
    plan = _run([*words, "-cubin", "-dryrun", "-o", "unused.cubin"]).splitlines()
    place = next((line.partition("=")[2] for line in plan if line.startswith("#$ _HERE_=")), "")
    cicc = next((line for line in plan if _FRONT_END.search(line) and " -arch " in line), None)
    if not place or cicc is None:
        raise _NotAloneError("nvcc does not tell how it compiles the unit")
    settings = cicc.split()
    if "-g" in settings:
        raise _NotAloneError("-G is for whole units")
    values = dict(word.split("=", 1) for word in settings if word.startswith("-") and "=" in word)
    options = [
        word
        for name, told in _PASSED_ON.items()
        if name in values
        for word in ("-Xnvvm", f"{told}={values[name]}")
    ]
    if "-maxreg" in settings:
        options.append(f"-maxrregcount={settings[settings.index('-maxreg') + 1]}")
    return Path(place).resolve(), options


def _find_nvvm(top: Path, folder: Path) -> Path:
    """Find the folder that has lib64/libnvvm.so; Python's packages have the library elsewhere."""
    usual = top / "nvvm"
    if (usual / "lib64/libnvvm.so").is_file():
        return usual
    for pattern in ("nvvm/lib*/libnvvm.so*", "lib*/libnvvm.so*"):
        for library in sorted(top.glob(pattern)):
            link = folder / "nvvm/lib64/libnvvm.so"
            link.parent.mkdir(parents=True)
            link.symlink_to(library)
            return folder / "nvvm"
    raise _NotAloneError(f"there is no libnvvm.so in {top}")


def _run(words: list[str]) -> str:
    """Run a program, and return what it printed. Raises _NotAloneError if it fails."""
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, encoding="utf-8", errors="replace", check=False
        )
    except OSError as error:
        raise _NotAloneError(f"{words[0]}: {error.strerror}") from error
    printed = done.stdout + done.stderr
    if done.returncode != 0:
        line = next((line for line in printed.splitlines() if "error" in line or "fatal" in line), "it fails")
        raise _NotAloneError(f"{Path(words[0]).name}: {line.strip()}")
    return printed


def main() -> int:
    """Compile the kernel. If that cannot be done, compile the whole unit, unless ``--alone`` is given."""
    parser = argparse.ArgumentParser(description="Compiles one kernel of a CUDA unit that has many.")
    parser.add_argument("--alone", action="store_true", help="fail if the kernel cannot be compiled alone")
    parser.add_argument("kernel", help="the end of the kernel's symbol")
    parser.add_argument("output", type=Path, help="the cubin")
    parser.add_argument("words", nargs=argparse.REMAINDER, help="NVCC [OPTION...] -x cu -arch=TARGET SOURCE")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        try:
            compile_alone(given.kernel, given.output, given.words, Path(folder))
        except _NotAloneError as error:
            if given.alone:
                print(error, file=sys.stderr)
                return 1
            print(f"{error}: the whole unit is compiled, which takes longer", file=sys.stderr)
        else:
            return 0
    return subprocess.run([*given.words, "-cubin", "-o", given.output], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
