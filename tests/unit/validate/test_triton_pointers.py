"""The pointers of a Triton kernel and their types, by Triton's signature."""

from __future__ import annotations

import struct

import manifest_examples

from kerncap_stages.manifests.kernel import KernargSlot
from kerncap_stages.manifests.triton import TritonArgument, TritonTensor
from kerncap_stages.validate.arguments import find_pointers


def find(signature, *values, call=()):
    """The pointers of a kernel that was given these values: 8 bytes each, or 4 for one in a list."""
    slots, kernarg = [], b""
    for value in values:
        is_short = isinstance(value, list)
        kernarg += bytes(-len(kernarg) % (4 if is_short else 8))
        kind = "by_value" if is_short else "global_buffer"
        slots.append(KernargSlot(offset_bytes=len(kernarg), size_bytes=4 if is_short else 8, value_kind=kind))
        kernarg += struct.pack("<I", value[0]) if is_short else struct.pack("<Q", value)
    kernel = manifest_examples.triton_kernel()
    assert kernel.triton is not None
    triton = kernel.triton.model_copy(update={"signature": tuple(signature.items())})
    example = manifest_examples.capture()
    arguments = tuple(
        TritonArgument(
            name=name, type_name="descriptor", tensor=TritonTensor(address=address, dtype="float16")
        )
        for name, address in call
    )
    launch = manifest_examples.triton_launch().model_copy(update={"arguments": arguments})
    capture = example.model_copy(update={
        "kernel": kernel.model_copy(update={"triton": triton, "slots": tuple(slots)}),
        "launch": example.launch.model_copy(update={"triton": launch}), "kernarg": kernarg.hex(),
    })  # fmt: skip
    return [
        (each.label, each.address, each.element_type, each.is_const)
        for each in find_pointers(None, capture, None)
    ]


def test_types_are_those_of_the_signature():
    signature = {
        "x": "*fp16",
        "n": "i32",
        "one": "constexpr",
        "y": "*kbf16",
        "z": "*fp8e4b8",
        "odd": "*fp8e4b15",
    }
    assert find(signature, 64, [3], 128, 192, 256, 0) == [
        ("x (*fp16)", 64, "fp16", False),
        ("y (*kbf16)", 128, "bf16", True),
        ("z (*fp8e4b8)", 192, "fp8_e4m3_fnuz", False),
        ("odd (*fp8e4b15)", 256, None, False),
        ("argument 5", 0, None, False),  # Triton's scratch memory
    ]


def test_elements_of_tuples_are_arguments():
    signature = {"pair": "('*fp32', ('i32', '*i64'), 'constexpr')", "last": "*u8"}
    assert [each[:3] for each in find(signature, 64, [3], 128, 192)] == [
        ("pair[0] (*fp32)", 64, "fp32"),
        ("pair[1][1] (*i64)", 128, "int64"),
        ("last (*u8)", 192, "uint8"),
    ]


def test_behind_a_descriptor_addresses_tell():
    signature = {"x": "*fp32", "d": "tensordesc<fp16[16, 32]>", "y": "*fp32"}
    assert [each[:3] for each in find(signature, 64, 128, 16, 32, 192, call=[("d", 128)])] == [
        ("x (*fp32)", 64, "fp32"),
        ("d (tensordesc<fp16[16, 32]>)", 128, "fp16"),
        ("argument 2", 16, None),
        ("argument 3", 32, None),
        ("argument 4", 192, None),
    ]


def test_what_the_kernel_takes_otherwise_is_not_guessed():
    assert [each[:3] for each in find({"x": "*fp32", "y": "*fp32"}, 64)] == [("argument 0", 64, None)]
    # A constant with a type: it is not passed.
    assert [each[:3] for each in find({"BLOCK": "i32", "x": "*fp32"}, 64)] == [("x (*fp32)", 64, "fp32")]
