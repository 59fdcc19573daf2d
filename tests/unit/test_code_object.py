"""What code objects say of kernels, whatever the linker made of their names."""

import pytest

from kerncap_stages.code.kernel_facts import CodeObjectFacts, strip_unit


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("_ZL5shiftPf.intern.53a931688688ed87", "_ZL5shiftPf"),
        ("_ZL5shiftPf.static.53a931688688ed87", "_ZL5shiftPf"),
        ("_ZL5shiftPf__intern__53a931688688ed87", "_ZL5shiftPf"),
        ("_Z5shiftPf", "_Z5shiftPf"),
        (
            "__nv_static_28__5d2e0014_7_main_cu_4d11ce8d__ZN39_GLOBAL__N__5d2e0014_7_main_cu_4d11ce8d6hiddenEPfi",
            "_ZN39_GLOBAL__N__5d2e0014_7_main_cu_4d11ce8d6hiddenEPfi",
        ),
        ("__nv_static_24__8f38712a_7_only_cu_main__Z6dampedPfi", "_Z6dampedPfi"),
        ("__nv_static_32__7eeb66cb_10_hostfun_cu__Z3runPf__Z6dampedPf", "_Z6dampedPf"),
        ("__nv_static_9999__cut_short", "__nv_static_9999__cut_short"),
        ("shift.intern.of", "shift.intern.of"),
    ],
)
def test_the_mark_of_a_unit_is_no_part_of_a_name(symbol, name):
    assert strip_unit(symbol) == name


def test_a_kernel_is_found_by_its_symbol_or_as_the_only_one_of_its_name():
    first, second, plain = "_ZL1kv.intern.aa", "_ZL1kv.intern.bb", "_ZL1kv"
    facts = CodeObjectFacts("", 5, {first: "first", second: "second"})
    assert facts.find_kernel(second) == "second"
    assert facts.find_kernel(plain) is None  # either of two
    assert CodeObjectFacts("", 5, {plain: "alone"}).find_kernel(second) == "alone"
    assert CodeObjectFacts("", 5, {plain: "alone"}).find_kernel("_ZL2kkv") is None
