"""Variants as cubin, PTX and fatbin, and what validation says of them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from nvidia_gpu import architecture
from programs import Build, Program, compile_once

HERE = Path(__file__).parent


@pytest.fixture
def capture(captured, built):
    return captured("vector_add", built["vector_add"], dispatch=1)


@pytest.mark.parametrize("form", ["cubin", "ptx", "fatbin"])
def test_a_right_variant_passes(kc, built, capture, form):
    done = kc.run("kc-validate", capture, "--variant", built[f"same.{form}"])
    assert done.code == 0, done.err


@pytest.mark.parametrize("name", ["wrong", "nothing", "stray", "faulting"])
def test_a_bad_variant_fails(kc, built, capture, name):
    done = kc.run("kc-validate", capture, "--variant", built[f"{name}.cubin"])
    assert done.code == 1, done.err
    assert "FAIL" in done.err


def test_ptx_for_smaller_blocks_is_told_as_such(kc, built, capture, tmp_path):
    bounded = tmp_path / "bounded.ptx"
    text = built["same.ptx"].read_text()
    head, body = text.split("\n{", 1)
    bounded.write_text(f"{head}\n.maxntid 32\n{{{body}")
    done = kc.run("kc-validate", capture, "--variant", bounded)
    assert done.code == 1, done.err
    assert re.search(r"the kernel allows 32 threads a block .*, and this launch has \d+", done.err), done.err


def test_ptx_of_a_newer_toolkit_is_refused_with_what_to_do(kc, built, capture, tmp_path):
    newer = tmp_path / "newer.ptx"
    text = built["same.ptx"].read_text()
    newer.write_text(re.sub(r"^\.version .*", ".version 99.9", text, flags=re.MULTILINE))
    done = kc.run("kc-replay", capture, "--variant", newer)
    assert done.code == 6, done.err
    assert "Unsupported .version 99.9" in done.err
    assert "or to a cubin" in done.err


def test_ptx_that_is_damaged_is_the_users_file(kc, built, capture, tmp_path):
    damaged = tmp_path / "damaged.ptx"
    damaged.write_text(built["same.ptx"].read_text().replace("ret;", "no_such_instruction;"))
    done = kc.run("kc-replay", capture, "--variant", damaged)
    assert done.code == 2, done.err
    assert f"{damaged} cannot be loaded" in done.err
    assert "rebuild it" in done.err


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (("int count", "int count, int more"), "vector_add(float const*, float*, int, int); "),
        (
            ("const float* a, float* c, int count", "float* c, int count, const float* a"),
            "vector_add(float*, int, float const*); the captured kernel is vector_add(float const*, ",
        ),
        (
            ("vector_add", "vector_sum"),
            "has no kernel _Z10vector_addPKfPfi; kernels with similar names: _Z10vector_sum",
        ),
    ],
    ids=["more", "in another order", "renamed"],
)
def test_a_kernel_that_takes_something_else_is_refused(kc, capture, tmp_path, edit, words):
    source = tmp_path / "variant.cu"
    text = (HERE / "variants/same.cu").read_text()
    source.write_text(text.replace(*edit))
    cubin = tmp_path / "variant.cubin"
    subprocess.run(
        ["nvcc", f"-arch={architecture()}", "-cubin", "-o", cubin, source], check=True, capture_output=True
    )
    done = kc.run("kc-replay", capture, "--variant", cubin)
    assert done.code in (3, 6), done.err
    assert words in done.err


TABLES = [
    ((), True),
    # What nobody changed since the module was loaded is the variant's own, as it would be in the program ...
    (("FACTOR=99.0f",), False),
    (("ADDEND=99.0f",), False),
    # ... and what the host set is as it was set.
    (("SET=99.0f",), True),
    # A variable that held the result already.
    (("SKIP_AGAIN",), False),
    # Past the end of an allocation: by a few bytes, and by many.
    (("OVERRUN=0",), False),
    (("OVERRUN=20000",), False),
    # Reads there: what it finds is too large to be swallowed by a sum.
    (("PEEK",), False),
]


@pytest.mark.parametrize(("defines", "passes"), TABLES)
def test_variables_and_overruns_decide(kc, captured, built, defines, passes):
    capture = captured("look_up", built["tables"], dispatch=1)
    variant = compile_once(
        Build(Program(HERE / "programs/tables.cu"), architecture(), "O2", defines=defines, flags=("-cubin",))
    )
    done = kc.run("kc-validate", capture, "--variant", variant)
    assert done.code == (0 if passes else 1), done.err
    assert ("outside of all captured memory" in done.err) == any("OVERRUN" in word for word in defines)


def test_a_capture_of_another_gpu_is_refused(kc, capture):
    # The same capture, said to be of another architecture.
    import json

    from kerncap_stages.manifests import dump
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.store import Store

    manifest = kc.show(capture)
    for device in manifest["environment"]["devices"]:
        device["isa"] = device["target"] = device["architecture"] = "sm_75"
    store = Store.open(kc.store)
    with store.begin_transaction() as transaction:
        moved = transaction.publish(dump(Capture.model_validate_json(json.dumps(manifest))), "capture", [])
    done = kc.run("kc-replay", moved)
    assert done.code == 6
    assert "sm_75" in done.err
