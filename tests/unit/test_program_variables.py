"""What connects a variant for CUDA with the variables of the program, in which it will run."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from cuda_captures import publish_cuda

from kerncap_stages.code.cubin_links import Links
from kerncap_stages.digest import MemoryRef
from kerncap_stages.manifests import load_as
from kerncap_stages.manifests.capture import Capture
from kerncap_stages.manifests.memory import ModuleVariable
from kerncap_stages.replay.program_variables import connect_code
from kerncap_stages.store import Store

GOLDEN = Path(__file__).parents[1] / "golden/cuda"
CAPTURED = (GOLDEN / "variables.cubin").read_bytes()
EDITED = (GOLDEN / "variables_edited.cubin").read_bytes()
TABLES = (GOLDEN / "links_separate.cubin").read_bytes()
FIRST = struct.pack("<3f", 1, 2, 3)


@pytest.fixture
def store(tmp_path):
    return Store.open(tmp_path / "store")


def connect(store, code, captured=CAPTURED, held=FIRST, held_after=None):
    """held, held_after: what the captured module's scale_by held before and after the kernel."""
    capture = load_as(store, publish_cuda(store, captured, "use"), Capture)
    with store.begin_transaction() as transaction:
        pre = MemoryRef.to(transaction.put_memory(held))
        post = MemoryRef.to(transaction.put_memory(held if held_after is None else held_after))
        transaction.publish_objects()
    scale_by = ModuleVariable(
        symbol="scale_by", code_object=capture.code_digest, device_index=0, address=0x7E00_0000_0000,
        size_bytes=12, is_const=True, pre=pre, post=post, written=(), written_size_bytes=0,
    )  # fmt: skip
    return connect_code(store, capture.model_copy(update={"module_variables": (scale_by,)}), code)


@pytest.fixture
def connected(store):
    return connect(store, EDITED)


def test_variables_that_both_have_are_the_programs(connected):
    found = {each.name: (each.size_bytes, each.is_const) for each in connected.variables}
    # Strings of printf and what only the variant has are its own.
    assert found == {
        "counter": (4, False), "where": (8, False), "table": (16, False), "_ZZ3useE5calls": (4, False),
        "scale_by": (12, True),
    }  # fmt: skip
    assert connected.unconnected == ()


def test_their_addresses_go_where_the_driver_would_put_them(connected):
    addresses = {
        each.name: 0x7123_4567_0000 + 0x100 * number for number, each in enumerate(connected.variables)
    }
    made = bytearray(connected.data)
    for each in connected.variables:
        for word in each.words:
            assert word.part.name == "WHOLE"
            struct.pack_into("<Q", made, word.place, addresses[each.name] + word.addend)
    wanted, _ = Links(EDITED).fix_variables(addresses)
    assert bytes(made) == wanted
    assert not Links(connected.data).release_variables(set(addresses))[1]["counter"]


def test_constants_are_copied_and_have_no_words(connected):
    assert [each.words for each in connected.variables if each.is_const] == [()]


@pytest.mark.parametrize(
    ("held", "held_after", "is_own"),
    [
        (FIRST, None, True),
        (struct.pack("<3f", 9, 9, 9), None, False),  # the program has set it
        (FIRST, struct.pack("<3f", 9, 9, 9), False),  # the kernel has
    ],
)
def test_an_edited_table_is_the_variants_unless_somebody_changes_it(store, held, held_after, is_own):
    edited = EDITED.replace(FIRST, struct.pack("<3f", 4, 5, 6))
    assert edited != EDITED
    connected = connect(store, edited, held=held, held_after=held_after)
    assert ("scale_by" not in {each.name for each in connected.variables}) == is_own
    assert [note.split()[0] for note in connected.notes] == (["scale_by"] if is_own else [])
    assert connected.unconnected == ()


def test_a_variable_of_another_size_is_refused(store):
    grown = (GOLDEN / "variables_grown.cubin").read_bytes()
    assert connect(store, grown).unconnected == ("table has 16 bytes in the program",)


def test_addresses_of_functions_are_refused(store):
    assert set(connect(store, TABLES, TABLES).unconnected) == {
        "table holds addresses of functions", "_ZTV6Square holds addresses of functions",
    }  # fmt: skip


def test_ptx_that_names_a_variable_of_the_program_is_refused(store):
    ptx = b".version 9.0\n.target sm_90\n.global .align 4 .b32 counter;\n"
    assert connect(store, ptx).unconnected == ("counter: PTX is linked by the driver",)
    assert connect(store, ptx.replace(b"counter", b"counters")).unconnected == ()


def test_damage_is_said(store):
    (why,) = connect(store, EDITED[: len(EDITED) // 2]).unconnected
    assert why.startswith("a cubin's variables cannot be read")
