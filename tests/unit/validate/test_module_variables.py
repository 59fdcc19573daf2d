"""Module variables as inputs: which they are, the types of what they hold, and states that change them."""

from __future__ import annotations

import numpy as np
import pytest
from manifest_examples import capture

from kerncap_stages.digest import MemoryRef
from kerncap_stages.manifests.memory import LoadedCodeObject, MemoryKind, ModuleVariable
from kerncap_stages.validate.arguments import Span
from kerncap_stages.validate.fresh_states import choose_inputs
from kerncap_stages.validate.judgement import explain_not_fresh
from kerncap_stages.validate.perturb.start import Start
from kerncap_stages.validate.perturb.states import Perturbation, Trial
from kerncap_stages.validate.variables import cut_variable, find_input_variables, inputs, is_in_large_memory

LOADED, SIZE = 0x7F0000100000, 4096
COEFFICIENTS, TABLE, MODE, COUNTER, LIST = 64, 128, 0, 256, 512  # offsets


@pytest.fixture
def made(store, monkeypatch):
    """A code object with coefficients, a table as it was built, a mode of 0, a counter and an address."""
    content = np.zeros(SIZE, np.uint8)
    content[COEFFICIENTS : COEFFICIENTS + 20].view(np.float32)[:] = [0.5, 1, 2, 3, 4]
    content[TABLE : TABLE + 16].view(np.float32)[:] = 7
    initial = bytes(content[TABLE : TABLE + 16])
    content[LIST : LIST + 8].view(np.uint64)[:] = LOADED
    after = content.copy()
    after[COUNTER] = 1

    def put(values):
        with store.begin_transaction() as transaction:
            memory = MemoryRef.to(transaction.put_memory(values))
            transaction.publish_objects()
        return memory

    def describe(pre, post):
        written = () if (pre == post).all() else ((0, 4),)
        states = {"pre": put(pre), "post": put(post), "written": written}
        return {**states, "written_size_bytes": int((pre != post).sum())}

    example = capture()
    own = example.code_digest
    region = example.regions[0].model_copy(
        update=describe(content, after)
        | {"base_address": LOADED, "size_bytes": SIZE, "kind": MemoryKind.CODE_OBJECT}
        | {"read_only": False, "left_out_reason": None}
    )

    def name(symbol, at, size, code=own):
        states = describe(content[at : at + size], after[at : at + size])
        where = {"address": LOADED + at, "size_bytes": size, "device_index": 0, "is_const": None}
        return ModuleVariable(symbol=symbol, code_object=code, **where, **states)

    loaded = LoadedCodeObject(
        code_object=own,
        device_index=example.dispatch.device_index,
        load_address=LOADED,
        load_size_bytes=SIZE,
    )
    variables = (
        *(name("coefficients", COEFFICIENTS, 20), name("table", TABLE, 16), name("mode", MODE, 4)),
        *(name("counter", COUNTER, 4), name("list", LIST, 8), name("__hip_cuid_1", 1000, 1)),
    )
    at_build = {TABLE: initial}
    monkeypatch.setattr(inputs, "read_initial", lambda _, at, size: at_build.get(at, bytes(size)))
    monkeypatch.setattr(type(store), "get_kept", lambda *_: b"")
    return example.model_copy(
        update={"regions": (region,), "loaded_code_objects": (loaded,), "module_variables": variables}
    )


def test_inputs_are_those_that_the_program_has_set_and_the_kernel_only_reads(store, made):
    found = find_input_variables(store, made)
    assert [region.base_address - LOADED for region in found] == [COEFFICIENTS, MODE]


def test_variables_in_large_memory_are_told(store, made, monkeypatch):
    """Their memory would be stored again for each state."""
    coefficients, mode = find_input_variables(store, made)
    assert not is_in_large_memory(made, coefficients)
    monkeypatch.setattr(inputs, "_MAX_BYTES", SIZE - 1)
    assert find_input_variables(store, made) == [coefficients, mode]
    assert is_in_large_memory(made, coefficients)
    choice = choose_inputs([], SIZE, [coefficients, mode])
    assert choice.kept == [coefficients, mode]
    (told,) = explain_not_fresh(choice, lambda _: (Span(0, 4, None, "mode"),))
    assert told.startswith("too large for fresh values (")


def test_a_state_changes_the_variable_in_the_code_objects_memory_alone(store, made):
    coefficients, mode = find_input_variables(store, made)
    parts = {
        each.base_address: (Span(0, each.size_bytes if each is coefficients else 1, kind),)
        for each, kind in ((coefficients, "fp32"), (mode, "uint8"))
    }
    start = Start(
        store,
        made,
        *(
            Trial(each, Perturbation.FRESH_ANY, parts[each.base_address], seed=3)
            for each in (coefficients, mode)
        ),
    )
    before, after = (store.read_memory(each.regions[0].pre.digest) for each in (made, start.capture))
    differing = np.flatnonzero(before != after)
    assert after[MODE] == 1
    assert set(differing) <= {MODE, *range(COEFFICIENTS, COEFFICIENTS + 20)}
    assert len(differing) > 5
    held = {each.symbol: store.read_memory(each.pre.digest) for each in start.capture.module_variables}
    assert bytes(held["coefficients"]) == bytes(after[COEFFICIENTS : COEFFICIENTS + 20])
    assert held["mode"].tolist() == [1, 0, 0, 0]
    # One region changes between the runs of a process; states by themselves are the variables'.
    assert start.changes == {LOADED: start.capture.regions[0].pre}
    assert start.perturbed_states.keys() == {LOADED + COEFFICIENTS, LOADED + MODE}


def cut(values, texts=()):
    content = np.concatenate([np.asarray(each).reshape(-1).view(np.uint8) for each in values])
    parts = cut_variable("held", content, texts)
    assert all(part.label == "held (module variable)" for part in parts)
    return [(part.start, part.end, part.element_type) for part in parts]


def test_values_tell_types():
    floats, flag = np.float32([0.5, 0.25, 3, 4, 5]), np.int32([1])
    assert cut([floats]) == [(0, 20, "fp32")]
    assert cut([np.int32([4, 5, 6, 7])]) == [(0, 16, "int32")]
    assert cut([flag]) == [(0, 1, "uint8")]
    assert cut([np.int32([0])]) == [(0, 1, "uint8")]
    assert cut([np.int32([48])]) == [(0, 4, "int32")]
    assert cut([np.float32([1.5])]) == [(0, 4, "fp32")]
    assert cut([np.float64([0.1])]) == [(0, 8, "fp64")]
    assert cut([np.int64([70])]) == [(0, 8, "int64")]
    assert cut([np.int32([5]), np.float32([1.5])]) == [(0, 4, "int32"), (4, 8, "fp32")]
    assert cut([np.uint8([1])]) == [(0, 1, "uint8")]
    assert cut([np.uint32([0x12345678])]) == [(0, 4, None)]
    assert cut([np.zeros(64, np.uint8)]) == [(0, 64, None)]
    assert cut([np.int32([48, 1]), floats[:2]]) == [(0, 4, "int32"), (4, 5, "uint8"), (8, 16, "fp32")]


def test_the_source_tells_types():
    assert cut([np.int32([0])], [b"int other;\n__device__ float held;"]) == [(0, 4, "fp32")]
    assert cut([np.zeros(64, np.uint8)], [b"__constant__ double held[8];"]) == [(0, 64, "fp64")]
    assert cut([np.int32([1])], [b"__device__ const volatile int held = 1;"]) == [(0, 1, "uint8")]
    assert cut([np.int32([1, 48])], [b"__device__ Settings held;"]) == [(0, 1, "uint8"), (4, 8, "int32")]
