"""Pages: every kind has one, nothing in a manifest is obeyed by the terminal or read as markup."""

from __future__ import annotations

import contextlib
import io
import json

import manifest_examples as examples
import pytest
from rich.console import Console

from kerncap_stages.compat.lines import make_region_lines
from kerncap_stages.digest import ManifestRef
from kerncap_stages.errors import ManifestUnreadable
from kerncap_stages.manifests import View, dump, parse
from kerncap_stages.manifests.environment import Backend
from kerncap_stages.manifests.kernel import KernargSlot
from kerncap_stages.manifests.timing import TimeSource
from kerncap_stages.manifests.validation import Guard
from kerncap_stages.pages import render
from kerncap_stages.pages.kernel import format_slot_value
from kerncap_stages.pages.parts import make_table
from kerncap_stages.pages.scope import format_tried
from kerncap_stages.pages.verdict import format_lines
from kerncap_stages.text import formats

HOSTILE = "\x1b]0;owned\x07\x1b[2J\r\n[bold red]x[/] [link=file:///etc]y[/link] :smile: \u202e\x9b1m"


def shown(manifest: object, width: int = 120) -> str:
    # A colour terminal: there, escape sequences that were let through would have an effect.
    console = Console(
        file=io.StringIO(), width=width, force_terminal=True, color_system=None, markup=False,
        highlight=False, emoji=False, legacy_windows=False,
    )  # fmt: skip
    for section in render(manifest):
        console.print(section)
    return console.file.getvalue()


@pytest.mark.parametrize("manifest", examples.every_manifest(), ids=lambda m: m.kind)
@pytest.mark.parametrize("width", [20, 80, 200])
def test_every_kind_has_a_page_at_every_width(manifest, width):
    text = shown(manifest, width)
    assert len(text.splitlines()) > 5
    assert max(map(len, text.splitlines())) <= width


@pytest.mark.parametrize("manifest", examples.every_manifest(), ids=lambda m: m.kind)
@pytest.mark.parametrize("width", [40, 60])
def test_no_word_of_a_narrow_page_is_cut_to_pieces(manifest, width):
    """Where a table would be columns of single letters, each row is a list of facts."""
    whole = [word for word in shown(manifest, 80).split() if word.isalnum() and 4 < len(word) <= 16]
    assert whole
    narrow = shown(manifest, width).split()
    assert [word for word in whole if word not in narrow] == []


@pytest.mark.parametrize("width", [30, 40, 80])
def test_digests_and_sizes_stay_whole_on_a_narrow_terminal(width):
    console = Console(file=io.StringIO(), width=width)
    row = ["0123456789ab", "capture", "1.23 MiB", "x" * 30]
    console.print(make_table(["=artifact", "kind", ">size", "about"], [row]))
    text = console.file.getvalue()
    for whole in ("0123456789ab", "capture", "1.23 MiB"):
        assert whole in text
    assert text.count("x") == 30
    assert max(map(len, text.splitlines())) <= width


@pytest.mark.parametrize("width", [80, 100, 120, 200])
def test_a_profile_has_one_line_for_each_kernel(width):
    plain = examples.profile()
    names = [
        f"void at::native::elementwise_kernel<{'at::Functor<float>, ' * 9}4>(int)",
        "Cijk_" * 40,
        "scale",
    ]
    kernels = tuple(plain.kernels[0].model_copy(update={"name": name}) for name in names)
    lines = shown(plain.model_copy(update={"kernels": kernels}), width).splitlines()
    table = lines[lines.index(next(line for line in lines if "─" in line)) + 1 :][: len(names)]
    for line, part in zip(table, ["elementwise_kernel<", "Cijk_", "scale"], strict=True):
        assert part in line
        assert len(line) <= width


def hostile_variants(manifest: object) -> list[object]:
    """Yield the manifest with each of its free texts replaced, one by one, where the model allows it."""
    content = json.loads(dump(manifest))
    variants = []

    def visit(node: object) -> None:
        entries = node.items() if isinstance(node, dict) else enumerate(node)
        for key, value in list(entries):
            if isinstance(value, dict | list):
                visit(value)
            elif isinstance(value, str):
                node[key] = HOSTILE
                payload = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
                with contextlib.suppress(ManifestUnreadable):
                    variants.append(parse(payload.encode() + b"\n", "x"))
                node[key] = value

    visit(content)
    return variants


@pytest.mark.parametrize("manifest", examples.every_manifest(), ids=lambda m: m.kind)
def test_hostile_text_is_shown_and_not_obeyed(manifest):
    variants = hostile_variants(manifest)
    assert variants
    for variant in variants:
        text = shown(variant, 400)
        assert not {letter for letter in text if not letter.isprintable()} - {"\n"}


def test_a_profile_lists_the_shapes_of_kernels_that_have_several():
    profile = examples.profile()
    assert "Launch shapes" not in shown(profile)
    tuned, plain = profile.kernels
    (shape,) = tuned.launch_shapes
    shapes = tuple(
        shape.model_copy(update={"grid_blocks": (100 + i, 1, 1), "calls": 20 - i}) for i in range(12)
    )
    tuned = tuned.model_copy(update={"launch_shapes": shapes, "last_shape": 10})
    text = shown(profile.model_copy(update={"kernels": (tuned, plain)}))
    assert "107" in text  # the eight most frequent ones
    assert "108" not in text
    (last,) = [line for line in text.splitlines() if "used last" in line]
    assert "110" in last


def test_markup_in_a_name_is_not_read():
    kernel = examples.hsa_kernel(demangled_name="[bold]a[/bold] [/] :smile:", mangled_name="b[0]")
    text = shown(examples.capture(kernel=kernel))
    assert "[bold]a[/bold] [/] :smile:" in text
    assert "b[0]" in text


def test_capture_page_shows_what_was_captured():
    text = shown(examples.capture())
    for part in ("scale(float*, float*, float, int)", "_Z5scalePfS_fi", "0x7f0000000000", "130 B in 2 ranges",
                 "region 2 was left out: not reachable", "grid, work-items", "1000", "gfx90a:sramecc+:xnack-",
                 "18 SGPRs", "1.00 KiB static + 512 B dynamic", "./app --size 512"):  # fmt: skip
        assert part in text


def test_cuda_captures_are_described_in_cudas_words():
    capture = examples.capture(Backend.CUDA)
    assert capture.kernel.code_object.format.value == "cubin"
    text = shown(capture)
    for word in ("warp", "parameters", "shared memory", "local memory", "block, threads"):
        assert word in text
    for word in ("wavefront", "kernarg", "LDS", "scratch", "work-items"):
        assert word not in text
    assert "work-items" in shown(examples.capture())


def test_empty_variables_that_did_not_change_are_one_line():
    capture = examples.capture()
    (variable,) = capture.module_variables
    tags = [
        variable.model_copy(update={"symbol": f"tag_{number}", "size_bytes": 1, "address": number})
        for number in range(40)
    ]
    changed = tags[0].model_copy(update={"symbol": "counter", "written": ((0, 1),), "written_size_bytes": 1})
    text = shown(capture.model_copy(update={"module_variables": (variable, *tags, changed)}))
    assert "tag_" not in text
    assert "and 40 variables of 1 B" in text
    assert "counter" in text
    assert "table" in text


def test_triton_page_shows_the_chosen_configuration():
    assert "num_warps=4 (chosen by an autotuner)" in shown(examples.capture(Backend.CUDA))


@pytest.mark.parametrize(
    ("slot", "raw", "value"),
    [
        ({"size_bytes": 8, "value_kind": "global_buffer"}, 0x7F0000000010, "0x7f0000000010  region 0 + 16"),
        ({"size_bytes": 8, "value_kind": "global_buffer"}, 0x7F0000000000, "0x7f0000000000  region 0"),
        ({"size_bytes": 8, "value_kind": "global_buffer"}, 0x10, "0x000000000010  in no region"),
        ({"size_bytes": 8, "value_kind": "global_buffer"}, 0, "null"),
        ({"size_bytes": 8, "value_kind": "by_value"}, 0x7F0000000010, "0x7f0000000010  region 0 + 16"),
        ({"size_bytes": 8, "value_kind": "by_value"}, 0x10, "16 (0x10)"),
        ({"size_bytes": 4, "value_kind": "by_value", "type_name": "float"}, 0x3FC00000, "1.5"),
        ({"size_bytes": 4, "value_kind": "by_value", "type_name": "int"}, 0xFFFFFFFF, "-1"),
        ({"size_bytes": 4, "value_kind": "by_value", "type_name": "unsigned int"}, 255, "255 (0xff)"),
        ({"size_bytes": 12, "value_kind": "by_value", "type_name": "S"}, 1, "01000000 00000000 00000000"),
        ({"size_bytes": 400, "value_kind": "by_value"}, 1, "not in the segment"),
    ],
)
def test_argument_value(slot, raw, value):
    kernarg = raw.to_bytes(16, "little")
    assert (
        format_slot_value(KernargSlot(offset_bytes=0, **slot), kernarg, examples.capture().regions) == value
    )


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.00 KiB"), (1536, "1.50 KiB"), (10 << 20, "10.0 MiB"),
     (999 << 30, "999 GiB"), (1 << 62, "4.00 EiB")],
)  # fmt: skip
def test_size(size_bytes, text):
    assert formats.format_size(size_bytes) == text


@pytest.mark.parametrize("source", TimeSource)
def test_a_clock_is_named_in_words(source):
    assert "_" not in formats.name_clock(source)
    assert formats.name_clock(source).strip()


@pytest.mark.parametrize(
    ("duration_ns", "text"), [(0, "0 ns"), (999, "999 ns"), (1500, "1.50 µs"), (61 * 10**9, "61.0 s")]
)
def test_duration(duration_ns, text):
    assert formats.format_duration(duration_ns) == text


def test_a_verdicts_page_names_its_options_and_what_it_was_built_from():
    project = ManifestRef.to(examples.digest("project"))
    made = examples.validation().model_copy(update={"reproducer": project})
    text = shown(made)
    assert f"--rtol 0.001 --dtype fp32 --reference SHA-256 {made.options.reference.short}" in text
    assert "--captured-values" in text
    assert "--quick" not in text
    assert made.reproducer.digest.short in text
    (line,) = (line for line in text.splitlines() if line.split()[:1] == ["kernel_variant.cpp"])
    assert line.split()[1] == made.built_from[0].digest.short


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({}, "Tried: captured state, 3 changed, 2 fresh (seed 4294967295), 32 runs"),
        ({"pre_states": 1, "fresh_states": 0, "seed": None}, "Tried: captured state, 32 runs"),
        ({"fresh_states": None, "variant_runs": 1}, "Tried: captured state, 5 other, 1 run"),
        (
            {"guard": Guard(size_bytes=1, guarded_size_bytes=1, runs=4, fresh_runs=2)},
            "Tried: captured state, 3 changed, 2 fresh (seed 4294967295), 32 runs, 6 guarded",
        ),
        ({"passed": False}, None),
        ({"variant": None}, None),
    ],
)
def test_a_pass_says_in_one_line_what_was_tried(changes, line):
    usual = {"passed": True, "pre_states": 6, "fresh_states": 2, "seed": 2**32 - 1, "variant_runs": 32}
    made = examples.validation().model_copy(update={**usual, **changes})
    assert format_tried(made) == line
    assert format_tried(View(json.loads(dump(made)))) == line
    assert line is None or len(line) <= 80


def test_an_output_without_a_wrong_element_points_to_its_stray_writes():
    made = examples.validation()
    region = made.regions[0].model_copy(update={"passed": False, "elements_out_of_bounds": 0, "worst": None})
    made = made.model_copy(update={"passed": False, "regions": (region,)})
    said = next(line for line in format_lines(made) if "FAIL" in line)
    assert said.endswith(": nothing that the captured kernel writes differs, but see STRAY")
    assert "nothing that the captured kernel writes differs" in make_region_lines(made)[0]


def test_states_with_fresh_values_are_told_apart():
    made = examples.validation()
    (region,) = made.regions
    starts = ("fresh values", "near values", "the captured values with other signs", None)
    regions = tuple(region.model_copy(update={"start": start}) for start in starts)
    lines = list(format_lines(made.model_copy(update={"regions": regions})))
    named = [line.partition(":")[0] for line in lines if " FAIL " in line]
    assert named[:3] == [f"  FAIL out, from {start}" for start in starts[:3]]
    assert named[3] == "  FAIL out, from a perturbed state"  # as of earlier verdicts
    text = shown(made.model_copy(update={"regions": regions}), 200)
    for start in starts[:3]:
        assert f"out, from {start}" in text
