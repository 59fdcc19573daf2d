"""Makes the environment of a program that is to run on the software GPU.

The library reads these variables itself (``native/softgpu/device/settings.hpp``). This module does not load
it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.errors import DeviceError, UsageError
from kerncap_stages.machine.native_paths import find_native_file

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

TARGETS = ("gfx90a", "gfx942")
# The limits of the library (native/softgpu/device/settings.cpp).
MAX_GPUS = 8
MAX_WORKERS = 1024
LDS_WATCH = ("report", "stop")
MAX_SEED = 2**64 - 1
MIN_VRAM_BYTES, MAX_VRAM_BYTES = 256 << 20, 1 << 40

# Names a file to which the software GPU appends a line for each code object and kernel that it did not run.
REFUSALS = "KERNCAP_SOFTGPU_REFUSALS"

_MAX_DIGITS = 20  # of 64 bits; Python converts no more than 4300

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
# The user sets it to 0 so that only kc-softgpu uses the software GPU. Only shells set the other value.
_VARIABLE, _BY_SHELL = "KERNCAP_SOFTGPU", "shell"
_LIBRARY = "libkerncap_softgpu.so"
_ROCR = "libhsa-runtime64.so.1"


def _is_number(text: str, least: int, most: int) -> bool:
    if not (text.isascii() and text.isdecimal()):
        return False
    digits = text.lstrip("0") or "0"
    return len(digits) <= _MAX_DIGITS and least <= int(digits) <= most


def _is_schedule(text: str) -> bool:
    name, colon, seed = text.partition(":")
    if colon:
        return name == "adversarial" and _is_number(seed, 0, MAX_SEED)
    return name in ("hardware-like", "adversarial")


def _is_clock(text: str) -> bool:
    name, _, seed = text.partition(":")
    return text == "steady" or (name == "jumps" and _is_number(seed, 0, MAX_SEED))


# For each variable: whether the library accepts a value, and how messages describe those that it accepts.
_SETTINGS: dict[str, tuple[Callable[[str], bool], str]] = {
    "TARGET": (lambda text: text in (*TARGETS, "gfx1100"), "gfx90a, gfx942 or gfx1100"),
    "GPUS": (lambda text: _is_number(text, 1, MAX_GPUS), f"1 to {MAX_GPUS}"),
    "VRAM_BYTES": (
        lambda text: _is_number(text, MIN_VRAM_BYTES, MAX_VRAM_BYTES),
        "a number of bytes from 256 MiB to 1 TiB",
    ),
    "WORKERS": (lambda text: _is_number(text, 1, MAX_WORKERS), f"1 to {MAX_WORKERS}"),
    "LDS": (lambda text: text in ("hardware", *LDS_WATCH), "hardware, report or stop"),
    "SCHEDULE": (_is_schedule, "hardware-like, adversarial or adversarial:SEED"),
    "CLOCK": (_is_clock, "steady or jumps:SEED"),
    "UNSET": (lambda text: text in ("patterns", "leftovers"), "patterns or leftovers"),
}


@dataclass(frozen=True)
class SoftGpu:
    """Settings of the software GPU; None leaves the choice to the library."""

    target: str | None = None
    gpus: int | None = None
    vram_bytes: int | None = None
    workers: int | None = None
    schedule: str | None = None  # "hardware-like", "adversarial:SEED"
    count: str | None = None  # a file, or "-" for standard error
    lds: str | None = None  # one of LDS_WATCH; None: accesses beyond the LDS are neither reported nor stopped
    trace: bool = False

    def check(self) -> None:
        """Raise UsageError for a setting that the library would refuse: the program would see no GPU."""
        if self.target is not None and self.target not in TARGETS:
            raise UsageError(
                f"--target {self.target}: not emulated", hint=f"choose one of {', '.join(TARGETS)}"
            )
        if self.gpus is not None and not 1 <= self.gpus <= MAX_GPUS:
            raise UsageError(f"--gpus {self.gpus}: out of range", hint=f"from 1 to {MAX_GPUS}")
        if self.workers is not None and not 1 <= self.workers <= MAX_WORKERS:
            raise UsageError(f"--workers {self.workers}: out of range", hint=f"from 1 to {MAX_WORKERS}")
        if self.lds is not None and self.lds not in LDS_WATCH:
            raise UsageError(
                f"--lds {self.lds}: no such choice", hint=f"choose one of {', '.join(LDS_WATCH)}"
            )
        if self.vram_bytes is not None and not MIN_VRAM_BYTES <= self.vram_bytes <= MAX_VRAM_BYTES:
            raise UsageError(f"--vram: {self.vram_bytes} bytes is out of range", hint="from 256MiB to 1TiB")
        if self.schedule is not None and not _is_schedule(self.schedule):
            raise UsageError(
                f"--schedule {self.schedule}: not a schedule",
                hint="hardware-like, adversarial or adversarial:SEED, with a number as the seed",
            )
        if self.count not in (None, "-"):
            try:
                with Path(str(self.count)).open("ab"):
                    pass
            except OSError as error:
                raise UsageError(
                    f"--count-file {self.count}: {error.strerror}", hint="name a file that you can write"
                ) from error

    def make_environment(self, base: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the environment of a program that is to see this GPU; ``base`` is ours by default.

        Raises DeviceError where this installation has no software GPU, UsageError for a variable in ``base``
        with a value that the software GPU does not accept.
        """
        environment = dict(os.environ if base is None else base)
        library = str(find_native_file(_LIBRARY))
        # A shell of another installation may have loaded its own copy: a process with two crashes.
        loaded = environment.get("LD_PRELOAD", "").split(":")
        loaded = [path for path in loaded if path and Path(path).name != _LIBRARY]
        environment["LD_PRELOAD"] = ":".join([library, *loaded])
        environment.pop(_VARIABLE, None)  # the caller wants the software GPU, whatever the variable says
        settings = {
            "TARGET": self.target,
            "GPUS": self.gpus,
            "VRAM_BYTES": self.vram_bytes,
            "WORKERS": self.workers,
            "SCHEDULE": self.schedule,
            "COUNT": self.count if self.count in (None, "-") else str(Path(str(self.count)).absolute()),
            "LDS": self.lds,
            "TRACE": "1" if self.trace else None,
        }
        for name, value in settings.items():
            if value is not None:
                environment[f"KERNCAP_SOFTGPU_{name}"] = str(value)
        check_variables(environment)
        return environment


def check_variables(environment: Mapping[str, str]) -> None:
    """Raise UsageError for a variable that the library would refuse, so that the program would see no GPU."""
    for name, (takes, expected) in _SETTINGS.items():
        text = environment.get(f"{_VARIABLE}_{name}", "")
        if text and not takes(text):
            raise UsageError(
                f"{_VARIABLE}_{name}={text}: not accepted by the software GPU", hint=f"expected {expected}"
            )


def fall_back(base: Mapping[str, str], target: str | None = None) -> dict[str, str]:
    """Return the variables to add to ``base`` so that a program sees the software GPU, if it has no AMD GPU.

    Returns nothing where the machine has an AMD GPU, where the program runs on the software GPU already,
    where this installation has no software GPU, or where KERNCAP_SOFTGPU is 0. ``target``: the GPU to emulate
    unless ``base`` says one. Raises UsageError if the program will run on the software GPU and a variable in
    ``base`` has a value that the software GPU does not accept.
    """
    if base.get(_VARIABLE) == "0":
        return {}
    try:
        find_native_file(_LIBRARY)
    except DeviceError:
        return {}
    machine_has_gpu = Path("/dev/kfd").exists() and not is_loaded()
    # A user who opens a shell has not chosen the software GPU by it.
    was_chosen = is_loaded(base) and base.get(_VARIABLE) != _BY_SHELL
    if was_chosen or not machine_has_gpu:
        check_variables(base)
    if machine_has_gpu or was_chosen:
        return {}
    known = target if target in TARGETS and "KERNCAP_SOFTGPU_TARGET" not in base else None
    whole = SoftGpu(target=known).make_environment(base)
    return {name: value for name, value in whole.items() if base.get(name) != value}


def prepare_shell(base: Mapping[str, str]) -> dict[str, str]:
    """Return the variables to add to a shell's environment, as ``fall_back`` does for a program's.

    Stages in that shell still choose the target of the capture that they replay.
    """
    added = fall_back(base)
    return {**added, _VARIABLE: _BY_SHELL} if added else {}


def is_loaded(environment: Mapping[str, str] | None = None) -> bool:
    """Whether a program with this environment (default: this process) has the software GPU's library loaded.

    That process sees the software GPU's device files, not the machine's.
    """
    loaded = (os.environ if environment is None else environment).get("LD_PRELOAD", "")
    return any(Path(path).name == _LIBRARY for path in loaded.split(":"))


def read_refusals(path: Path) -> list[str]:
    """Return the distinct lines of the file that REFUSALS names; none where everything ran."""
    try:
        text = path.read_text(errors="replace")
    except FileNotFoundError:
        return []
    return list(dict.fromkeys(text.splitlines()))


def parse_size(text: str) -> int:
    """Return the number of bytes of a size such as ``4G``, ``512MiB`` or ``1073741824``.

    Raises UsageError for anything else.
    """
    word = text.strip().upper().removesuffix("B").removesuffix("I")
    number, unit = (word[:-1], word[-1]) if word and word[-1] in "KMGT" else (word, "")
    if not number.isdecimal() or len(number) > _MAX_DIGITS:
        raise UsageError(f"{text}: not a size", hint="write it like 4GiB, 512MiB or 1073741824")
    return int(number) * _UNITS[unit]


def require_rocm() -> None:
    """Raise DeviceError where there is no ROCm runtime: programs reach the software GPU through it."""
    import ctypes.util  # only here: most stages import this module, and few call this function

    folders = [*os.environ.get("LD_LIBRARY_PATH", "").split(":"), "/opt/rocm/lib"]
    if any((Path(folder) / _ROCR).exists() for folder in folders if folder):
        return
    if ctypes.util.find_library("hsa-runtime64") is None:
        raise DeviceError(
            f"this machine has no ROCm libraries ({_ROCR}), which the software GPU needs",
            hint="install this package in a ROCm root as well, and run it there: "
            "kc-root run -- python3 -m venv DIR; kc-root run -- DIR/bin/pip install WHEEL; "
            "kc-root run -- DIR/bin/kc-softgpu -- COMMAND (in a checkout: "
            "make shell ARGS='kc-softgpu -- COMMAND'); for a program that has its own ROCm libraries: "
            "kc-softgpu --own-rocm -- COMMAND",
        )
