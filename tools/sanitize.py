"""The store's native part under sanitizers, and the fuzz target of its object reader for some seconds.

clang makes these builds, because libFuzzer needs it. They lie beside the usual build, with native/core alone.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# The name of a build, what `-fsanitize=` is given, and how a report ends the program.
BUILDS = {
    "address": ("address,undefined", {"UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1"}),
    "thread": ("thread", {"TSAN_OPTIONS": "halt_on_error=1"}),
}
# Everything that is not native/core.
LEFT_OUT = ("bindings", "softgpu", "hsa", "cuda")


def clang() -> str:
    """Name of clang's C compiler; a root has one, with its version in the name."""
    names = ["clang", *(f"clang-{version}" for version in range(30, 14, -1))]
    return next(name for name in names if shutil.which(name))


def sanitize(folder: Path, top: Path, fuzz_s: int, call: Callable[..., None]) -> None:
    """Build and test native/core under each sanitizer, then fuzz for ``fuzz_s`` seconds.

    folder: keeps the builds and what the fuzzer has learnt.
    call: ``call(*words, variables=…)`` runs a command, and ends the program if that fails.
    """
    compiler = clang()
    chosen = {"CC": f"ccache {compiler}", "CXX": f"ccache {compiler.replace('clang', 'clang++')}"}
    for name, (sanitizers, variables) in BUILDS.items():
        build = folder / f"sanitize-{name}"
        if not (build / "build.ninja").exists():
            settings = [f"-D{part}=disabled" for part in LEFT_OUT]
            call("meson", "setup", build, top, f"-Db_sanitize={sanitizers}", "-Dbuildtype=debugoptimized",
                 "-Dnative_tests=enabled", *settings, variables=chosen)  # fmt: skip
        target = ["tests/native/core/fuzz_object_reader"] if name == "address" else []
        call("ninja", "-C", build, "--quiet", "core-tests", *target)
        call("meson", "test", "-C", build, "--no-rebuild", "--print-errorlogs", "--quiet",
             "--suite", "core", "--timeout-multiplier", 4, variables=variables)  # fmt: skip
    fuzz(folder / "sanitize-address/tests/native/core", folder / "fuzz-object-reader", fuzz_s, call)


def fuzz(programs: Path, corpus: Path, seconds: int, call: Callable[..., None]) -> None:
    """Let libFuzzer change what it has found so far; what breaks the reader is kept beside the corpus."""
    call(programs / "fuzz_corpus", corpus)
    limits = [f"-max_total_time={seconds}", "-timeout=10", "-rss_limit_mb=1024", "-max_len=65536"]
    quiet = ["-verbosity=0", "-print_funcs=0", "-print_final_stats=1", f"-artifact_prefix={corpus}-failed-"]
    call(programs / "fuzz_object_reader", *limits, *quiet, corpus, variables=BUILDS["address"][1])
