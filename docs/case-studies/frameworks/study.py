"""CuPy and JAX on ROCm 7.2, from a profile to verdicts on edits: `make study-frameworks` runs this file.

It installs the wheels of PyPI, makes stand-ins for the libraries that Debian does not have, and then only
calls the package's executables.
"""

from __future__ import annotations

import shutil
import sys
from functools import partial
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(1, str(HERE.parent / "common"))

import missing  # noqa: E402 - after the path of what studies share
from command import describe_machine, run_whole  # noqa: E402
from framework_kernels import CUPY, JAX  # noqa: E402
from judging import judge_kernel  # noqa: E402
from measuring import profile  # noqa: E402
from running import Study, run  # noqa: E402

WHEELS = {
    "cupy": ("cupy-rocm-7-0==14.2.0", "numpy==2.5.5"),
    "jax": ("jax==0.12.0.1", "jax-rocm7-plugin==0.12.0", "jax-rocm7-pjrt==0.12.0", "numpy==2.5.5"),
}
STAND_INS = {"cupy": missing.CUPY, "jax": missing.JAX}
# JAX else takes most of the GPU's memory at its start, and all of it is captured.
VARIABLES = {"jax": {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "TF_CPP_MIN_LOG_LEVEL": "2"}}
OPERATIONS = {
    "cupy": (
        "matmul", "matmul of half precision", "matmul of double precision", "sort", "FFT", "solve",
    ),
    "jax": ("matmul", "sort", "FFT", "Cholesky", "Pallas"),
}  # fmt: skip
OPERATION_LIMIT_S = 240


class Frameworks(Study):
    """Two programs in Python, each with wheels and libraries of its own."""

    @property
    def edited(self) -> Path:
        """Nothing of a build is edited."""
        return HERE / "programs"

    def program(self, name: str) -> tuple[str | Path, ...]:
        """Return the command of a program."""
        added = {
            "PYTHONPATH": self.folder / "wheels" / name,
            "LD_LIBRARY_PATH": self.folder / "stand-ins",
            **VARIABLES.get(name, {}),
        }
        words = (f"{variable}={value}" for variable, value in added.items())
        return ("env", *words, "python3", HERE / "programs" / f"{name}_program.py")


def prepare(study: Frameworks) -> dict[str, Any]:
    """Install the wheels, and compile the stand-ins."""
    log, libraries = study.log("prepare"), study.folder / "stand-ins"
    shutil.rmtree(libraries, ignore_errors=True)
    libraries.mkdir(parents=True)
    for name, wheels in WHEELS.items():
        target = study.folder / "wheels" / name
        run("pip", "install", "--only-binary", ":all:", "--upgrade", "--target", target, *wheels, log=log)
        for stand_in in STAND_INS[name]:
            stand_in.build(libraries, log)
    return {
        "wheels": WHEELS,
        "stand_ins": [
            {
                "of": each.of, "library": each.library, "does": each.does, "wanted_by": name,
                "functions": sum(len(group) for group in each.functions.values()),
            }
            for name, group in STAND_INS.items()
            for each in group
        ],
    }  # fmt: skip


def try_operation(study: Frameworks, framework: str, name: str) -> dict[str, Any]:
    """Run one more operation, and say how it ended: what does not work is named with its error."""
    log, away = study.log(f"operation-{framework}-{name.replace(' ', '-')}"), study.folder / "empty"
    log.unlink(missing_ok=True)
    program = (*study.program(framework)[:-1], HERE / "programs/operations.py", framework, name)
    words = ("timeout", str(OPERATION_LIMIT_S), "kc-softgpu", "--", *program)
    done = run(*words, log=log, cwd=away, expect=range(-64, 256))
    ended = done.out.strip().splitlines()[-1:] or [f"ended with exit code {done.exit_code}"]
    lines = [line for line in log.read_text(errors="replace").splitlines() if not line.startswith("$ ")]
    why = next((line for line in lines if "kerncap software GPU: " in line), "")
    why = why or next((line for line in reversed(lines) if "Error" in line or "error" in line), "")
    state = ended[0] if ended[0] in ("right", "wrong") else "error"
    return {"state": state, "exit_code": done.exit_code, "why": "" if state == "right" else why[:300]}


def try_operations(study: Frameworks) -> dict[str, Any]:
    """Run more operations of both frameworks, each in a process of its own."""
    return {
        framework: {name: try_operation(study, framework, name) for name in names}
        for framework, names in OPERATIONS.items()
    }


def run_study(study: Frameworks) -> dict[str, Any]:
    """Do all steps, and return their results."""
    return {
        "machine": study.step("machine", describe_machine),
        "prepare": study.step("prepare", partial(prepare, study)),
        "profiles": {name: study.step(f"profile-{name}", partial(profile, study, name)) for name in WHEELS},
        "kernels": {
            kernel.key: study.step(kernel.key, partial(judge_kernel, study, kernel))
            for kernel in (*CUPY, *JAX)
        },
        "operations": study.step("operations", partial(try_operations, study)),
        "remarks": [],  # for people to add: what the script cannot say
    }


if __name__ == "__main__":
    run_whole("make study-frameworks", HERE, Frameworks, run_study, __doc__ or "")
