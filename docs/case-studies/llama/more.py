"""What only this study measures: the operators' own tests, and ten captures of one run."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

from measuring import measure_capture
from running import run

if TYPE_CHECKING:
    from building import Llama
    from edits import Kernel

TEST_LIMIT_S = 300
CAPTURES = 10


def test_operator(study: Llama, operator: str) -> dict[str, Any]:
    """Run llama.cpp's own tests of an operator, but not longer than its limit."""
    words = ("timeout", str(TEST_LIMIT_S), study.build / "bin/test-backend-ops", "test", "-o", operator)
    done = run(*words, "-b", "ROCm0", log=study.log(f"test-{operator}"), expect=(0, 1, 124))
    tests = [line for line in done.out.splitlines() if line.startswith(f"  {operator}(")]
    return {
        "took": done.cost,
        "finished": done.exit_code != 124,
        "passed": sum("OK" in line for line in tests),
        "failed": sum("FAIL" in line for line in tests),
    }


def capture_layers(study: Llama, kernel: Kernel) -> dict[str, Any]:
    """Capture one dispatch, and ten dispatches of one run, each into a store of its own."""
    found: dict[str, Any] = {"kernel": kernel.key}
    for count in (1, CAPTURES):
        step, store = f"layers-{count}", study.folder / "stores" / f"layers-{count}"
        shutil.rmtree(store, ignore_errors=True)
        every = ("--count", str(count), "--every", "7")  # each layer multiplies by seven matrices
        words = ("kc-capture", "--store", store, "--kernel", kernel.pattern, *every, "--stop-after", "--")
        done = run(*words, *study.program(kernel.program), log=study.log(step), expect=(0,))
        digests = done.out.split()
        sizes = [measure_capture(study.manifest(digest, store)) for digest in digests]
        usage = json.loads(run("kc-store", "du", "--json", "--store", store, log=study.log(step)).out)
        found[str(count)] = {
            "captures": len(digests),
            "took": done.cost,
            "raw_bytes": sum(size["raw_bytes"] for size in sizes),
            "written_bytes": sum(size["written_bytes"] for size in sizes),
            "stored_bytes": usage["store"]["stored_bytes"],
            "each": [row["usage"] for row in usage["artifacts"]],
        }
    return found
