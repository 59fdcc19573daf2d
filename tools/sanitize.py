"""Test native code under sanitizers: core, capture, replay, the software GPU. Fuzz the object reader.

clang compiles all but the software GPU, because libFuzzer needs it; gcc compiles the software GPU. Each
build has a folder of its own beside the usual one, and contains only these parts.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

# The name of each build, and its value of `-fsanitize=`.
BUILDS = {"address": "address,undefined", "thread": "thread"}
# Those of native/ that need no GPU API.
SUITES = ("core", "capture", "replay")
# A report ends the program.
OPTIONS = {"UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1", "TSAN_OPTIONS": "halt_on_error=1"}
# The software GPU handles these signals itself: it reads memory that the program may unmap.
SOFTGPU_OPTIONS = OPTIONS | {"ASAN_OPTIONS": "handle_segv=0:handle_sigbus=0"}
# The tests of the device that need no interpreter: its build takes minutes under each sanitizer.
DEVICE_TESTS = ("address_space", "events", "host_guard", "memory_file", "svm")
# gcc's thread sanitizer wraps each signal handler in one of its own, with other signal masks.
NOT_FOR_THREADS = ("host_guard",)


def clang() -> str:
    """Find the name of clang's C compiler. In a root the name has a version."""
    names = ["clang", *(f"clang-{version}" for version in range(30, 14, -1))]
    return next(name for name in names if shutil.which(name))


def sanitize(folder: Path, top: Path, meson: Path, fuzz_s: int, call: Callable[..., None]) -> None:
    """Build and test core, capture and replay under each sanitizer, then fuzz for ``fuzz_s`` seconds.

    folder: holds the builds and the fuzzer's corpus.
    meson: of an environment that lives as long as the builds, because they name it.
    call: ``call(*words, variables=…)`` runs a command, and ends the program if the command fails.
    """
    compiler = clang()
    chosen = {"CC": f"ccache {compiler}", "CXX": f"ccache {compiler.replace('clang', 'clang++')}"}
    for name in BUILDS:
        build = folder / f"sanitize-{name}"
        target = ["tests/native/core/fuzz_object_reader"] if name == "address" else []
        left_out = [f"-D{part}=disabled" for part in ("bindings", "softgpu", "hsa", "cuda")]
        tests = [f"{suite}-tests" for suite in SUITES]
        _build(build, top, meson, name, left_out, chosen, [*tests, *target], call)
        suites = [word for suite in SUITES for word in ("--suite", suite)]
        chosen_tests = [*suites, *(["--no-suite", "one-thread"] if name == "thread" else [])]
        _test(build, chosen_tests, OPTIONS, call)
    fuzz(folder / "sanitize-address/tests/native/core", folder / "fuzz-object-reader", fuzz_s, call)


def sanitize_softgpu(folder: Path, top: Path, meson: Path, call: Callable[..., None]) -> None:
    """Build and test the software GPU's device under each sanitizer, as ``sanitize`` does."""
    for name in BUILDS:
        build = folder / f"sanitize-softgpu-{name}"
        chosen = [test for test in DEVICE_TESTS if name != "thread" or test not in NOT_FOR_THREADS]
        targets = [f"tests/native/softgpu/device/test_device_{test}" for test in chosen]
        settings = ["-Dbindings=disabled", "-Dhsa=disabled", "-Dcuda=disabled", "-Doptimization=1"]
        _build(build, top, meson, name, settings, {}, targets, call)
        _test(build, [f"device-{test}" for test in chosen], SOFTGPU_OPTIONS, call)


def _build(
    build: Path, top: Path, meson: Path, sanitizer: str, settings: Sequence[str], compilers: dict[str, str],
    targets: Sequence[str], call: Callable[..., None],
) -> None:  # fmt: skip
    rules = build / "build.ninja"
    if rules.exists() and str(meson) not in rules.read_text():
        shutil.rmtree(build)  # ninja would call a meson that may be gone
    if not rules.exists():
        call(meson, "setup", build, top, f"-Db_sanitize={BUILDS[sanitizer]}", "-Dbuildtype=debugoptimized",
             "-Dnative_tests=enabled", *settings, variables=compilers)  # fmt: skip
    call("ninja", "-C", build, "--quiet", *targets)


def _test(build: Path, tests: Sequence[str], options: dict[str, str], call: Callable[..., None]) -> None:
    call("meson", "test", "-C", build, "--no-rebuild", "--print-errorlogs", "--quiet",
         "--timeout-multiplier", 8, *tests, variables=options)  # fmt: skip


def fuzz(programs: Path, corpus: Path, seconds: int, call: Callable[..., None]) -> None:
    """Fuzz the object reader from the corpus. Inputs that break the reader are kept beside the corpus."""
    call(programs / "fuzz_corpus", corpus)
    limits = [f"-max_total_time={seconds}", "-timeout=10", "-rss_limit_mb=1024", "-max_len=65536"]
    quiet = ["-verbosity=0", "-print_funcs=0", "-print_final_stats=1", f"-artifact_prefix={corpus}-failed-"]
    call(programs / "fuzz_object_reader", *limits, *quiet, corpus, variables=OPTIONS)
