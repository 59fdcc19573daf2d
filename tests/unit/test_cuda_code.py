"""How cubins are linked for a replay: variables where they were captured, and the lines of the plan."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from cuda_captures import publish_cuda

from kerncap_stages.code.cubin_links import FunctionSlot, Variable
from kerncap_stages.digest import MemoryRef
from kerncap_stages.manifests import load_as
from kerncap_stages.manifests.capture import Capture
from kerncap_stages.manifests.memory import ModuleVariable
from kerncap_stages.replay.cuda_code import _write_function_lines, explain_fault, link_baseline, link_variant
from kerncap_stages.store import Store

GOLDEN = Path(__file__).parents[1] / "golden/cuda"
WHOLE = (GOLDEN / "links.cubin").read_bytes()
SEPARATE = (GOLDEN / "links_separate.cubin").read_bytes()
ONE, TWO, AREA = 0x7F00_0000_1000, 0x7F00_0000_1A00, 0x7F00_0000_0500
CONTENTS = {
    "_ZTV6Square": struct.pack("<3Q", 0, 0, AREA),
    "table": struct.pack("<2Q", ONE, TWO),
    "values": bytes(16),
    "pointer": bytes(8),
    "constant_pointer": bytes(8),
    "zeros": bytes(16),
}


@pytest.fixture
def store(tmp_path):
    return Store.open(tmp_path / "store")


def captured(store, code, contents=CONTENTS, called=lambda name: name):
    capture = load_as(store, publish_cuda(store, code, "use"), Capture)
    variables = []
    with store.begin_transaction() as transaction:
        for index, (name, content) in enumerate(contents.items()):
            state = MemoryRef.to(transaction.put_memory(content))
            variables.append(
                ModuleVariable(
                    symbol=called(name),
                    code_object=capture.kernel.code_object.payload.digest,
                    device_index=0,
                    address=0x7E00_0000_0000 + 0x100 * index,
                    size_bytes=len(content),
                    is_const=name == "constant_pointer",
                    pre=state,
                    post=state,
                    written=(),
                    written_size_bytes=0,
                )
            )
        transaction.publish_objects()
    return capture.model_copy(update={"module_variables": tuple(variables)})


def of_kind(linked, kind):
    return [line for line in linked.lines if line.split()[0] == kind]


def test_the_captured_cubin_has_its_variables_where_they_were(store):
    linked = link_baseline(store, captured(store, WHOLE), WHOLE)
    names = ("_ZTV6Square", "pointer", "table", "values", "zeros")
    assert list(linked.lines) == [f"fixed baseline {name}" for name in names]
    assert struct.pack("<Q", 0x7E00_0000_0100) in linked.data  # the table's
    assert linked.notes == ()


def test_functions_are_told_by_what_tables_held(store):
    linked = link_baseline(store, captured(store, SEPARATE), SEPARATE)
    assert of_kind(linked, "function") == [
        f"function baseline {ONE:#x} 0 16 table",
        f"function baseline {TWO:#x} 8 16 table",
        f"function baseline {AREA:#x} 16 24 _ZTV6Square",
    ]
    variant = link_variant(store, captured(store, SEPARATE), SEPARATE)
    assert of_kind(variant, "function") == [
        line.replace("baseline", "variant") for line in of_kind(linked, "function")
    ]


def test_a_table_that_the_program_changed_is_no_witness(store):
    for changed in (struct.pack("<2Q", TWO, TWO), struct.pack("<2Q", 0, 0)):
        linked = link_baseline(store, captured(store, SEPARATE, CONTENTS | {"table": changed}), SEPARATE)
        assert of_kind(linked, "function") == [f"function baseline {AREA:#x} 16 24 _ZTV6Square"]


def test_a_variable_of_another_size_stays_where_the_driver_puts_it(store):
    linked = link_variant(store, captured(store, WHOLE, CONTENTS | {"values": bytes(8)}), WHOLE)
    assert "fixed variant values" not in linked.lines
    assert "fixed variant zeros" in linked.lines


def test_variables_of_anonymous_namespaces_are_found_in_another_folders_build(store):
    here, there = b"_GLOBAL__N__0123abcd_4_a_cu_zeros", b"_GLOBAL__N__89abcdef_4_a_cu_zeros"
    capture = captured(store, WHOLE, called=lambda name: here.decode() if name == "zeros" else name)
    ptx = b".version 9.0\n.target sm_90\n.global .align 4 .b8 " + there + b"[16];\n.entry use() { ret; }\n"
    assert link_variant(store, capture, ptx).lines == (f"renamed {here.decode()} {there.decode()}",)


def test_functions_that_have_other_numbers_in_a_variant_are_told(store):
    capture = captured(store, WHOLE)
    assert link_variant(store, capture, WHOLE).notes == ()
    renumbered = WHOLE.replace(b"$use$_Z3onef", b"$use$_Z3oned")
    (note,) = link_variant(store, capture, renumbered).notes
    assert "_Z3onef is _Z3oned" in note


def test_a_variant_that_was_compiled_the_other_way_is_told(store):
    for captured_code, code in ((WHOLE, SEPARATE), (SEPARATE, WHOLE)):
        (note,) = link_variant(store, captured(store, captured_code), code).notes
        assert "compiled the other way" in note


def test_what_is_no_cubin_is_left_to_the_driver(store):
    capture = captured(store, WHOLE)
    assert link_variant(store, capture, b"rubbish").data is None
    assert link_variant(store, capture, WHOLE[:3000]).data is None
    assert link_baseline(store, captured(store, WHOLE, {}), WHOLE).data is None


def test_a_function_that_code_alone_knows_is_named_for_a_replay_that_faults(store):
    assert explain_fault(store, captured(store, SEPARATE)) == ()  # a table is loaded with its address
    (note,) = explain_fault(store, captured(store, SEPARATE, {}))
    assert "the address of two(float):" in note
    assert explain_fault(store, captured(store, WHOLE, {})) == ()


class TwoAlike:
    """What a variant's tables are loaded with: functions of two units' anonymous namespaces."""

    @staticmethod
    def find_function_slots():
        table = Variable("table", 16, is_const=False)
        names = (f"_ZN36_GLOBAL__N__{folder}_4_a_cu_{unit}4funcEf" for folder, unit in ALIKE)
        return [FunctionSlot(name, table, 8 * place) for place, name in enumerate(names)]


ALIKE = (("11111111", "aaaaaaaa"), ("22222222", "bbbbbbbb"))


@pytest.mark.parametrize(
    ("unit", "lines"), [("bbbbbbbb", ["function variant 0x10 8 16 table"]), ("cccccccc", [])]
)
def test_of_two_functions_that_are_called_alike_none_is_guessed(unit, lines):
    name = f"_ZN36_GLOBAL__N__33333333_4_a_cu_{unit}4funcEf"
    assert list(_write_function_lines("variant", {name: 0x10}, TwoAlike())) == lines
