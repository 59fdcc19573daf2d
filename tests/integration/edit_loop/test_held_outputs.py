"""Types of outputs whose addresses a struct of arguments holds: from source or debug information."""

from __future__ import annotations

import io
import random
import subprocess
from typing import TYPE_CHECKING

import pytest
from elftools.elf.elffile import ELFFile
from made_up import device_code
from programs import SOURCES

from kerncap_stages.locate.debug_types import read_arguments

if TYPE_CHECKING:
    from pathlib import Path

    from stages import Stages

PROGRAM = "held_outputs.hip"
OUTPUTS = {
    "from_plain": "a.out (float*) in ",
    "from_derived": "a.tail.out (float*) in ",
    "from_unnamed": "a.out (float*) in ",
}


def compile_program(tree: Path, *words: str) -> None:
    subprocess.run(
        ["hipcc", "--offload-arch=gfx90a", *words, PROGRAM], cwd=tree, check=True, capture_output=True
    )


def told(stages: Stages, capture: str, variant: Path) -> list[tuple[str, str]]:
    """(element type, what leads there) of each output that is compared."""
    done = stages.run("validate", capture, "--variant", variant, "--quick", "--rtol", 1e-6, "--json").must()
    return [
        (region["element_type"], region["name"].rpartition("region ")[0])
        for region in done.manifest["regions"]
    ]


@pytest.mark.parametrize("debug", ["-g0", "-g"])
def test_outputs_in_structs_are_compared_as_their_numbers(stages: Stages, tmp_path: Path, debug: str):
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / PROGRAM).write_text((SOURCES / "edit_loop" / PROGRAM).read_text())
    compile_program(tree, "-O2", debug, "-o", "app")
    compile_program(tree, "-O2", "--genco", "-o", "variant.hsaco")
    names = [word for name in OUTPUTS for word in ("--kernel", name)]
    captures = stages.run("capture", *names, "--", tree / "app").must().digests
    kernels = {stages.show(each)["kernel"]["demangled_name"].partition("(")[0]: each for each in captures}
    variant = tree / "variant.hsaco"
    for name, label in OUTPUTS.items():
        # A struct that device code does not construct is only declared there.
        is_told = debug == "-g" and name != "from_derived"
        known = [("fp32", label)] if is_told else [("bytes", "")]
        assert told(stages, kernels[name], variant) == known, name
    for name, label in OUTPUTS.items():
        source = stages.run("locate", kernels[name], "--source-dir", tree, "--json").must().manifest
        assert source["unedited"]["same_instructions"], source
        # The text of a plain struct is enough.
        held = [each["name"] for each in source["held_addresses"]]
        assert held == (["a.in", "a.tail.out"] if name == "from_derived" else [])
        assert told(stages, kernels[name], variant) == [("fp32", label)], name


def test_damaged_debug_information_is_none(tmp_path: Path):
    code = device_code(SOURCES / "edit_loop" / PROGRAM, tmp_path / "k.hsaco", "-g")
    symbol = "_Z10from_plain5Plain"
    (whole,) = read_arguments(code, symbol)
    assert [held.name for held in whole.pointers] == ["a.out", "a.in"]
    assert read_arguments(code, "absent") == ()
    sections = [
        ELFFile(io.BytesIO(code)).get_section_by_name(f".debug_{name}") for name in ("info", "abbrev")
    ]
    chance = random.Random(1)
    changed = 0
    for _ in range(150):
        section = chance.choice(sections)
        damaged = bytearray(code)
        for _ in range(3):
            damaged[section["sh_offset"] + chance.randrange(section["sh_size"])] = chance.randrange(256)
        changed += read_arguments(bytes(damaged), symbol) != (whole,)  # and it ends, without an exception
    assert changed > 10
