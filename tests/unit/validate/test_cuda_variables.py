"""Module variables of CUDA captures, each a region of its own, in other states than the captured one."""

import numpy as np
import pytest
from manifest_examples import capture, digest

from kerncap_stages.digest import MemoryRef
from kerncap_stages.manifests.environment import Backend
from kerncap_stages.manifests.memory import MemoryKind, ModuleVariable
from kerncap_stages.validate.arguments import Span
from kerncap_stages.validate.perturb.reach import find_reach
from kerncap_stages.validate.perturb.start import find_variable_ranges, replace_pre_state
from kerncap_stages.validate.perturb.states import Perturbation, Trial, perturb

DATA, RESULT, TABLE, FOREIGN = 0x7F0000000000, 0x7F0010000000, 0x7F0010001000, 0x7F0010002000
SIZE = 256


@pytest.fixture
def made(store):
    """Memory that nothing leads to, a variable, a constant one, and a variable of another module."""
    example = capture(Backend.CUDA)
    with store.begin_transaction() as transaction:
        state = MemoryRef.to(transaction.put_memory(np.zeros(SIZE, np.uint8)))
        transaction.publish_objects()
    unchanged = {"size_bytes": SIZE, "pre": state, "post": state, "written": (), "written_size_bytes": 0}
    plain = example.regions[0].model_copy(update=unchanged | {"base_address": DATA})
    kind = {"kind": MemoryKind.CODE_OBJECT}
    regions = [plain.model_copy(update=kind | {"base_address": at}) for at in (RESULT, TABLE, FOREIGN)]
    own = example.kernel.code_object.payload.digest
    variables = [
        ModuleVariable(symbol=name, code_object=code, device_index=0, address=at, is_const=const, **unchanged)
        for name, code, at, const in (
            ("result", own, RESULT, False),
            ("table", own, TABLE, True),
            ("foreign", digest("other"), FOREIGN, False),
        )
    ]
    return example.model_copy(
        update={
            "regions": (plain, *regions),
            "module_variables": tuple(variables),
            "loaded_code_objects": (),
            "kernarg": "00" * len(example.kernarg),
        }
    )


def test_only_own_variables_that_may_be_written_are_candidates(store, made):
    assert [region.base_address for region in find_reach(store, made, ()).candidates] == [RESULT]
    assert [region.base_address for region in find_reach(store, made, ()).others] == [DATA]


def test_another_state_is_that_of_the_region_and_of_the_variable(store, made):
    region = made.regions[1]
    ranges = find_variable_ranges(store, made, region)
    assert ranges == [(0, SIZE)]
    with store.begin_transaction() as transaction:
        parts = (Span(0, SIZE, "int32"),)
        pre = perturb(store, transaction, Trial(region, Perturbation.LIGHT_VARIABLES, parts), ranges)
        transaction.publish_objects()
    assert set(store.read_memory(pre.digest).tolist()) == {1}
    start = replace_pre_state(made, region, pre)
    assert [each.pre == pre for each in start.regions] == [False, True, False, False]
    # A replay puts variables where the module is now: it goes by them, not by the region.
    assert [each.pre == pre for each in start.module_variables] == [True, False, False]
    assert start.module_variables[0].post == made.module_variables[0].post
