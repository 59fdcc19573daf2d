"""Which files can stand in for a captured CUDA kernel, and how the others are refused."""

from __future__ import annotations

import re
import struct
from dataclasses import replace
from pathlib import Path

import pytest
from cuda_captures import publish_cuda

from kerncap_stages.code.read import read_code_object
from kerncap_stages.errors import ArtifactError, Refused, UsageError
from kerncap_stages.manifests import load_as
from kerncap_stages.manifests.capture import Capture
from kerncap_stages.replay.variant import explain_unfit, prepare_variant, read_variant
from kerncap_stages.store import Store

GOLDEN = Path(__file__).parents[1] / "golden/cuda"
CUBIN = (GOLDEN / "facts.cubin").read_bytes()
FATBIN = GOLDEN / "several.fatbin"
PTX = ".version 8.0\n.target {target}\n.entry {name}({parameters}) {{ ret; }}\n"


@pytest.fixture
def capture_of(tmp_path):
    def make(code, symbol):
        store = Store.open(tmp_path / "store")
        capture = load_as(store, publish_cuda(store, code, symbol), Capture)
        slots = read_code_object(code).kernels[symbol].slots
        return capture.model_copy(update={"kernel": capture.kernel.model_copy(update={"slots": slots})})

    return make


@pytest.fixture
def add(capture_of):
    return capture_of(CUBIN, "add")


@pytest.fixture
def given(tmp_path):
    def write(data):
        path = tmp_path / "variant"
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return path

    return write


def test_the_captured_code_itself_fits(add, given):
    assert read_variant(given(CUBIN), add).symbol == "add"


def test_ptx_with_the_same_parameters_fits(add, given):
    parameters = ".param .u64 a, .param .u64 b, .param .u64 c, .param .align 4 .b8 shape[8]"
    assert (
        read_variant(given(PTX.format(target="sm_90", name="add", parameters=parameters)), add).symbol
        == "add"
    )


@pytest.mark.parametrize(
    "parameters",
    [
        ".param .u64 a, .param .u64 b, .param .u64 c",
        ".param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d, .param .u64 e",
        ".param .u64 a, .param .u64 b, .param .align 8 .b8 shape[16]",
        ".param .u64 a, .param .u64 b, .param .u64 c, .param .u32 offset",
    ],
    ids=["fewer", "more", "same bytes", "smaller"],
)
def test_other_parameters_are_refused_with_both_layouts(add, given, parameters):
    text = PTX.format(target="sm_80", name="add", parameters=parameters)
    layout = r"4 arguments of 32 bytes \(8 at 0, 8 at 8, 8 at 16, 8 at 24\)"
    with pytest.raises(Refused, match=rf"add takes \d arguments of .*, the captured kernel {layout}"):
        read_variant(given(text), add)


@pytest.mark.parametrize(
    ("symbol", "words"),
    [
        ("_Z8allocatePPi", r"allocate\(int\*\*, int\); the captured kernel is allocate\(int\*\*\)"),
        ("_Z9incrementIfEvPT_", r"increment<float>\(float\*, int\); the captured kernel is void incr"),
    ],
)
def test_a_kernel_of_that_name_with_other_parameters_is_named(capture_of, given, symbol, words):
    text = PTX.format(target="sm_90", name=f"{symbol}i", parameters="")
    with pytest.raises(Refused, match=words):
        read_variant(given(text), capture_of(CUBIN, symbol))
    other = PTX.format(target="sm_90", name="_Z8allocateIfEvPT_", parameters="")
    with pytest.raises(ArtifactError, match="has no kernel"):
        read_variant(given(other), capture_of(CUBIN, symbol))


@pytest.mark.parametrize(
    ("limit", "required", "block", "words"),
    [
        (None, None, (1024, 1, 1), None),
        (256, None, (16, 16, 1), None),
        (255, None, (16, 16, 1), "allows 255 threads in a block .*, but this launch has 256"),
        (256, (256, 1, 1), (256, 1, 1), None),
        (
            256,
            (256, 1, 1),
            (16, 16, 1),
            "needs blocks of 256 x 1 x 1 threads, but this launch has 16 x 16 x 1",
        ),
    ],
)
def test_blocks_that_a_variant_cannot_have_are_named(limit, required, block, words):
    facts = read_code_object(CUBIN).kernels["add"]
    why = explain_unfit(replace(facts, max_work_group_size=limit, required_work_group_size=required), block)
    assert (why is None) if words is None else re.search(words, why)


def test_another_architecture_is_refused(add, given):
    with pytest.raises(Refused, match="is for sm_100, but the capture is from an sm_90a GPU"):
        read_variant(given(PTX.format(target="sm_100", name="add", parameters="")), add)
    older = bytearray(CUBIN)
    older[49] = 80  # the architecture's number in the flags of ABI 8
    with pytest.raises(Refused, match="is for sm_80"):
        read_variant(given(bytes(older)), add)


def test_a_missing_kernel_is_told_with_those_of_like_names(add, given):
    with pytest.raises(ArtifactError, match="has no kernel add; kernels with similar names: adds"):
        read_variant(given(PTX.format(target="sm_90", name="adds", parameters="")), add)
    with pytest.raises(ArtifactError, match="has no kernel add; its kernels: other"):
        read_variant(given(PTX.format(target="sm_90", name="other", parameters="")), add)


def test_a_cubin_that_was_not_linked_is_refused(add, given):
    relocatable = bytearray(CUBIN)
    struct.pack_into("<H", relocatable, 16, 1)  # ET_REL
    with pytest.raises(Refused, match=r"compiled for linking .* and not linked"):
        read_variant(given(bytes(relocatable)), add)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "it is empty"),
        (b"\x8f" * 5000, "damaged code object"),
        (CUBIN[:3000], "damaged cubin"),
        (b"__global__ void add() {}", "is a text file, not a code object"),
        (f"/{'é' * 40_000}".encode(), "is a text file, not a code object"),
    ],
    ids=["empty", "garbage", "cut", "source", "long source"],
)
def test_what_is_no_code_is_refused(add, given, data, words):
    path = given(data)
    with pytest.raises(UsageError, match=words) as refused:
        read_variant(path, add)
    assert str(path) in str(refused.value)
    assert "nvcc -cubin" in refused.value.hint


def test_a_huge_file_is_not_read(add, given):
    path = given(b"")
    with path.open("r+b") as file:
        file.truncate(3 << 30)
    with pytest.raises(UsageError, match="has 3221225472 bytes, but a code object has at most"):
        read_variant(path, add)


def test_a_fatbin_gives_the_code_of_the_captured_gpu(capture_of, tmp_path):
    from kerncap_stages.code.offload_bundle import extract_code_object

    cubin = extract_code_object(FATBIN.read_bytes(), "sm_90")
    capture = capture_of(cubin, "_Z5plainPfi")
    assert read_variant(FATBIN, capture).symbol == "_Z5plainPfi"
    assert prepare_variant(FATBIN, capture, tmp_path).read_bytes() == cubin
