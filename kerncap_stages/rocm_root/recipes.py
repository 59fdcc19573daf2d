"""What each root contains: its Debian suite, its packages, and their supported versions."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field

from kerncap_stages.errors import UsageError

# Raise this if the build steps change, so that a root of the old steps is not used as a new one.
STEPS_VERSION = 1

# Every ROCm version needs these: the project's compiler, its Python and its tools.
COMMON_PACKAGES = (
    "ca-certificates", "ccache", "cmake", "g++", "gdb", "git", "libdrm-dev", "libssl-dev", "libzstd-dev",
    "linux-libc-dev", "make", "ninja-build", "pkgconf", "procps", "python3", "python3-dev", "python3-pip",
    "python3-venv", "rocminfo", "strace",
)  # fmt: skip


@dataclass(frozen=True)
class Layer:
    """Packages that can be added to a root of one ROCm version.

    ``fallback``: a suite for packages that the recipe's suite lacks; apt prefers the recipe's suite.
    """

    name: str
    packages: tuple[str, ...]
    supported: dict[str, tuple[str, str]]
    size_gib: float
    fallback: str | None = None


@dataclass(frozen=True)
class Recipe:
    """One ROCm version: where its packages come from, and which versions of them are known to work.

    ``supported`` maps a package to its supported versions: from the first, up to but not including the
    second.
    """

    rocm: str
    suite: str
    overlay: str | None
    rocm_packages: tuple[str, ...]
    packages: tuple[str, ...]
    supported: dict[str, tuple[str, str]]
    llvm: str
    size_gib: float
    snapshot: str
    layers: dict[str, Layer] = field(default_factory=dict)

    def choose_layers(self, names: tuple[str, ...]) -> tuple[Layer, ...]:
        """Return layers, sorted by name. Raises UsageError if this ROCm version has no layer of a name."""
        for name in names:
            if name not in self.layers:
                have = ", ".join(sorted(self.layers)) or "none"
                raise UsageError(f"ROCm {self.rocm} has no layer {name!r}", hint=f"layers it has: {have}")
        return tuple(self.layers[name] for name in sorted(set(names)))

    def make_key(self, layers: tuple[str, ...], *, as_root: bool) -> str:
        """Return the name of the folder of a root made by this recipe."""
        chosen = map(asdict, self.choose_layers(layers))
        parts = [{k: v for k, v in layer.items() if v is not None} for layer in chosen]
        plain = {k: v for k, v in asdict(self).items() if k != "layers"}
        text = json.dumps([STEPS_VERSION, COMMON_PACKAGES, plain, parts, as_root], sort_keys=True)
        return "-".join(
            [self.rocm, *(part["name"] for part in parts), hashlib.sha256(text.encode()).hexdigest()[:12]]
        )

    def list_ranges(self, layers: tuple[str, ...]) -> dict[str, tuple[str, str]]:
        """Return the supported versions of all packages in a root with these layers."""
        ranges = dict(self.supported)
        for layer in self.choose_layers(layers):
            ranges.update(layer.supported)
        return ranges


LLAMA_CPP = Layer(
    name="llama.cpp",
    packages=("llama.cpp", "libggml0-backend-hip", "llama.cpp-tests"),
    supported={"libggml0-backend-hip": ("0.9", "1")},
    size_gib=8.0,
)

# The tests of ROCm's libraries, as Debian packages them: programs that nobody wrote for this project.
LIBRARY_TESTS = Layer(
    name="library-tests",
    packages=(
        "librocprim-tests", "libhipcub-tests", "librocthrust-tests", "librocfft0-tests",
        "librocsolver0-tests", "librocblas4-tests", "libhipsparse1-tests", "libggml0-backend-hip",
        "llama.cpp-tests",
    ),
    supported={
        "librocprim-tests": ("6.4", "6.5"), "libhipcub-tests": ("6.4", "6.5"),
        "librocthrust-tests": ("6.4", "6.5"), "libhipsparse1-tests": ("6.4", "6.5"),
        "libggml0-backend-hip": ("0.9", "1"),
    },
    size_gib=20.0,
    fallback="sid",  # forky lacks hipSPARSE, but has the rocSPARSE that sid's hipSPARSE is linked with
)  # fmt: skip

# What programs such as llama.cpp are built with, when they are built from source.
BLAS = Layer(
    name="blas",
    packages=("librocblas-dev", "libhipblas-dev"),
    supported={"librocblas-dev": ("6.4", "6.5"), "libhipblas-dev": ("6.4", "6.5")},
    size_gib=8.0,
)

# Headers of ROCm's sorts, scans and reductions: a program that includes them compiles their kernels itself.
HIPCUB = Layer(
    name="hipcub",
    packages=("libhipcub-dev", "librocprim-dev"),
    supported={"libhipcub-dev": ("6.4", "6.5"), "librocprim-dev": ("6.4", "6.5")},
    size_gib=2.6,
)

# What `make test-fleet` runs a cluster of several nodes with.
SLURM = Layer(
    name="slurm",
    packages=("slurm-client", "slurmctld", "slurmd"),
    supported={"slurmctld": ("23", "99"), "slurmd": ("23", "99")},
    size_gib=2.8,
)

# What CuPy and JAX of PyPI load: ROCm's libraries, and the headers that CuPy's kernels include.
FRAMEWORKS = Layer(
    name="frameworks",
    packages=(
        "libhipblas3", "libhipblaslt1", "libhipcub-dev", "libhipfft0", "libhiprand1", "libhipsolver1",
        "libhipsparse4", "libmiopen1", "librccl1", "librocblas5", "librocprim-dev", "librocsolver0",
        "librocthrust-dev", "libroctx64-4",
    ),
    supported={"librocblas5": ("7.2", "7.3"), "libmiopen1": ("7.2", "7.3"), "libhipcub-dev": ("7.2", "7.3")},
    size_gib=6.0,
)  # fmt: skip

RECIPES = {
    recipe.rocm: recipe
    for recipe in (
        Recipe(
            rocm="6.4",
            suite="forky",
            overlay=None,
            rocm_packages=(
                "hipcc", "libamdhip64-dev", "libhsa-runtime-dev", "libhsa-runtime64-1",
            ),
            packages=("lld-21", "llvm-21", "rocm-device-libs-21"),
            supported={
                "libhsa-runtime64-1": ("6.4", "6.5"), "libamdhip64-dev": ("6.4", "6.5"),
                "hipcc": ("6.4", "7.1"),
                "rocm-device-libs-21": ("6.4", "7.3"), "llvm-21": ("21", "22"), "python3": ("3.11", "4"),
            },
            llvm="21",
            size_gib=2.5,
            snapshot="20261030T080000Z",
            layers={layer.name: layer for layer in (LLAMA_CPP, LIBRARY_TESTS, BLAS, HIPCUB, SLURM)},
        ),
        Recipe(
            rocm="7.2",
            suite="sid",  # experimental extends sid, not testing
            overlay="experimental",
            rocm_packages=(
                "hipcc", "libamdhip64-7", "libamdhip64-dev", "libhsa-runtime-dev", "libhsa-runtime64-1",
                "librocprofiler-register-0",
            ),
            packages=(),
            supported={
                "libhsa-runtime64-1": ("7.2", "7.3"), "libamdhip64-7": ("7.2", "7.3"),
                "hipcc": ("7.2", "7.3"),
                "llvm-22": ("22", "23"), "python3": ("3.11", "4"),
            },
            llvm="22",
            size_gib=3.0,
            snapshot="20261030T080000Z",
            layers={FRAMEWORKS.name: FRAMEWORKS},
        ),
        # An old distribution, for wheels: what is compiled there also runs on newer ones.
        Recipe(
            rocm="none",
            suite="bookworm",
            overlay=None,
            rocm_packages=(),
            packages=(),
            supported={"libc6": ("2.36", "2.37"), "g++": ("12", "13"), "python3": ("3.11", "3.12")},
            llvm="",
            size_gib=1.5,
            snapshot="20261030T080000Z",
        ),
    )
}  # fmt: skip

DEFAULT_ROCM = "6.4"


def find_recipe(rocm: str) -> Recipe:
    """Return the recipe of a ROCm version. Raises UsageError if there is none."""
    try:
        return RECIPES[rocm]
    except KeyError:
        raise UsageError(f"no recipe for ROCm {rocm!r}", hint=f"known: {', '.join(RECIPES)}") from None
