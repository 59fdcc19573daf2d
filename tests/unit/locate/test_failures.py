"""What is said where no source is found."""

from __future__ import annotations

import pytest
from manifest_examples import capture, hsa_kernel

from kerncap_stages.code.kernel_names import parse_kernel_name
from kerncap_stages.compilers.consulted import Consulted
from kerncap_stages.compilers.line_tables import LineTables
from kerncap_stages.locate.failures import classify
from kerncap_stages.manifests.source import Outcome


@pytest.mark.parametrize(
    ("symbol", "said", "unsaid"),
    [
        # The C++ runtime's demangler does not read an argument that points to an array's first element.
        ("_Z1kIXadsoKcL_ZL7name_ofEEEEvPf", "build the program with debug information", "not a C++ name"),
        ("Cijk_Ailk_Bljk", "is not a C++ name", "debug information"),
    ],
)
def test_only_names_that_are_not_mangled_are_said_to_be_no_cpp_names(tmp_path, symbol, said, unsaid):
    captured = capture(kernel=hsa_kernel(mangled_name=symbol, demangled_name=symbol))
    tables = LineTables((), None)
    outcome, text = classify(captured, parse_kernel_name(symbol), tables, (tmp_path,), Consulted())
    assert outcome == Outcome.NO_SOURCE_TRAIL
    assert said in text
    assert unsaid not in text
