"""What users of kerncap know: `kerncap extract` of a Triton kernel, its files and its verdict."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
from triton_package import PROGRAMS

KERNELS = PROGRAMS / "kernels.py"


@pytest.fixture
def run(with_triton):
    """Run a command line in the test's folder, as a user who has the package's commands on PATH."""
    beside = Path(sys.executable).parent
    variables = {**with_triton.environment, "PATH": f"{beside}:{with_triton.environment['PATH']}"}

    def run_line(*words: object, folder: Path = with_triton.folder) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [str(word) for word in words],
            capture_output=True,
            text=True,
            env=variables,
            cwd=folder,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done

    return run_line


def test_the_documented_way_through_a_triton_kernel(with_triton, run):
    command = f"{sys.executable} {KERNELS} add"
    words = ("extract", "add_kernel", "--cmd", command, "--triton-backend", "python", "--output", "project")
    made = json.loads(run("kerncap", *words, "--json").stdout)
    assert made["language"] == "triton"
    assert made["has_source"]
    assert any("--triton-backend python does what hsa does" in note for note in made["notes"])
    project = with_triton.folder / "project"
    files = ("kernel_variant.py", "triton_sources/shapes.py", "reproducer.py", "Makefile")
    assert set(files) <= set(made["generated_files"])

    capture = project / "capture"
    metadata = json.loads((capture / "metadata.json").read_text())
    assert metadata["triton_user_name"] == "add_kernel"
    constants = {"BLOCK": 256, "LOW": "-inf", "CHANGE": "__main__:negate"}
    assert metadata["constexpr_values"] == constants
    (row,) = json.loads((capture / "name_map.json").read_text())
    assert (row["user_name"], row["constexpr_values"]) == ("add_kernel", constants)
    assert row["param_names"] == ["x", "y", "out", "n", "BLOCK", "LOW", "CHANGE"]
    assert row["launch"].items() >= {"num_warps": 4, "num_ctas": 1, "waves_per_eu": 0}.items()
    assert (row["source_file"], row["signature"]["x"]) == (str(KERNELS), "*fp32")
    code = (capture / row["hsaco_path"]).read_bytes()
    assert code == (capture / "kernel.hsaco").read_bytes()
    assert hashlib.sha256(code).hexdigest() == row["hsaco_sha256"] == metadata["hsaco_sha256"]
    assert (capture / row["source_snapshot"]).read_bytes() == KERNELS.read_bytes()
    assert len(list((capture / "triton_sources").iterdir())) == 2
    assert [(each["index"], each["name"], each["shape"], each["dtype"]) for each in row["tensor_layout"]] == [
        (0, "x", [1000], "float32"), (1, "y", [1000], "float32"), (2, "out", [1000], "float32"),
    ]  # fmt: skip

    run("python3", "reproducer.py", folder=project)
    said = run("kerncap", "validate", ".", folder=project).stdout
    assert said.splitlines()[-1].startswith("Result: PASS  (byte-exact")
    variant = project / "kernel_variant.py"
    variant.write_text(variant.read_text().replace("CHANGE(a)", "CHANGE(a) * (1.0 + 1e-6)"))
    run(sys.executable, "reproducer.py", folder=project)
    said = run("kerncap", "validate", ".", "--tolerance", "1e-3", "--rtol", "1e-3", folder=project).stdout
    assert said.splitlines()[-1].startswith("Result: PASS  (numeric")
