"""kc-run for a CUDA capture: what is refused, and what a program that uses no GPU is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from cuda_captures import publish_cuda
from stages import Stages

from kerncap_stages.code.read import read_code_object
from kerncap_stages.manifests import dump, load_as
from kerncap_stages.manifests.capture import Capture

GOLDEN = Path(__file__).parents[2] / "golden/cuda"


@pytest.fixture
def run(store, tmp_path):
    """Run `sh -c SCRIPT` with a variant of the captured kernel of variables.cu."""
    code = (GOLDEN / "variables.cubin").read_bytes()
    capture = load_as(store, publish_cuda(store, code, "use"), Capture)
    slots = read_code_object(code).find_kernel("use").slots
    with store.begin_transaction() as transaction:
        kernel = capture.kernel.model_copy(update={"slots": slots})
        transaction.publish(dump(capture.model_copy(update={"kernel": kernel})), "capture", [])
    stages = Stages(store.root, tmp_path, "sm_90")

    def start(variant, script, **variables):
        return stages.run("run", "--variant", variant, "--", "sh", "-c", script, **variables)

    return start


def test_a_program_that_uses_no_gpu_is_what_it_is(run):
    done = run(GOLDEN / "variables_edited.cubin", "echo here; exit 7").must(7)
    assert done.out == "here\n"
    assert "nothing was replaced: the program used no GPU" in done.err


def test_a_program_that_another_tool_is_injected_into(run):
    done = run(
        GOLDEN / "variables_edited.cubin", "echo here", CUDA_INJECTION64_PATH="/opt/tool/libtool.so"
    ).must(2)
    assert done.out == ""
    assert "CUDA_INJECTION64_PATH already names another tool: /opt/tool/libtool.so" in done.err
    assert "env -u CUDA_INJECTION64_PATH kc-run ...;" in done.err


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("variables_grown.cubin", "table has 16 bytes in the program"),
        ("facts.cubin", "no capture of a kernel that"),
    ],
)
def test_what_cannot_take_the_kernels_place_is_refused_before_the_program_runs(run, tmp_path, name, says):
    done = run(GOLDEN / name, f"touch {tmp_path}/ran").must(6 if "grown" in name else 3)
    assert says in done.err
    assert not (tmp_path / "ran").exists()
