import io
import struct
import zlib

import numpy as np
import pytest
from manifest_examples import validation as example_validation
from rich.console import Console

from kerncap_stages.manifests.validation import ElementType, Mode, Tolerance, WorstElement
from kerncap_stages.pages import render
from kerncap_stages.pages.verdict import draw_heat, format_footer, format_lines
from kerncap_stages.pages.verdict_report import draw_heat_png, encode_png, write_report


def test_the_heat_line_is_as_long_as_there_are_pieces_and_shows_the_least_difference():
    assert draw_heat([0, 0, 1, 0], 4096) == "  . "
    assert draw_heat([1024] * 4, 4096) == "@@@@"
    assert len(draw_heat([0] * 1024, 4096)) == 64
    assert draw_heat([0] * 1023 + [1], 1 << 20)[-1] == "."


def test_a_png_is_one_that_others_read():
    pixels = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3)
    data = encode_png(pixels)
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    at, found = 8, {}
    while at < len(data):
        (length,) = struct.unpack_from(">I", data, at)
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        assert struct.unpack_from(">I", data, at + 8 + length)[0] == zlib.crc32(kind + body)
        found[kind], at = body, at + 12 + length
    assert struct.unpack(">IIBBBBB", found[b"IHDR"]) == (3, 2, 8, 2, 0, 0, 0)
    rows = np.frombuffer(zlib.decompress(found[b"IDAT"]), np.uint8).reshape(2, 10)
    assert (rows[:, 0] == 0).all()
    assert (rows[:, 1:].reshape(2, 3, 3) == pixels).all()


def test_one_differing_byte_of_many_is_seen_in_the_picture():
    quiet, loud = draw_heat_png([0] * 64, 1 << 20), draw_heat_png([0] * 63 + [1], 1 << 20)
    assert quiet != loud


def test_hostile_names_are_text_in_the_page(tmp_path):
    manifest = example_validation()
    region = manifest.regions[0].model_copy(update={"name": "<script>alert(1)</script>", "heat": (1, 0)})
    manifest = manifest.model_copy(update={"regions": (region,), "reasons": ("<b>because</b>",)})
    page = write_report(manifest, "k<img src=x>", tmp_path / "new/report").read_text()
    assert "<script>" not in page
    assert "<img src=x>" not in page
    assert "<b>because" not in page
    assert 'src="heat-0.png"' in page


def test_the_legend_has_the_colours_of_the_picture(tmp_path):
    manifest = example_validation()

    def page(heat):
        region = manifest.regions[0].model_copy(update={"heat": heat, "size_bytes": 1 << 20})
        return write_report(manifest.model_copy(update={"regions": (region,)}), "k", tmp_path).read_text()

    def colour(heat):
        """Of the picture's first pixel."""
        picture = draw_heat_png(heat, 1 << 20)
        data = picture[picture.index(b"IDAT") + 4 : picture.rindex(b"IEND") - 8]
        return "rgb({},{},{})".format(*zlib.decompress(data)[1:4])

    shown = page((1, 0))
    for heat in ([0], [1], [1 << 20]):  # no byte of it, one, all of them
        assert colour(heat) in shown
    assert 'class="key"' not in page(())


def test_the_footer_is_the_promised_line():
    manifest = example_validation()
    region = manifest.regions[0].model_copy(update={"passed": True})
    options = manifest.options.model_copy(update={"fresh_values": True})
    exact = manifest.model_copy(
        update={
            "mode": Mode.BYTE_EXACT,
            "passed": True,
            "regions": (region,),
            "stray_writes": (),
            "options": options,
        }
    )
    assert format_footer(exact) == "Result: PASS  (byte-exact, 1 of 1 regions identical)"
    bad = region.model_copy(update={"passed": False})
    wrong = exact.model_copy(update={"passed": False, "regions": (bad,)})
    assert format_footer(wrong) == "Result: FAIL  (byte-exact, 0 of 1 regions identical, 1 differ)"
    faulted = wrong.model_copy(update={"regions": ()})
    assert format_footer(faulted) == "Result: FAIL  (byte-exact, nothing was compared)"
    smoke = exact.model_copy(update={"mode": Mode.SMOKE, "regions": ()})
    assert format_footer(smoke) == "Result: PASS  (smoke)"
    assert format_footer(exact, wrong) == "Result: FAIL  (byte-exact, 1 of 2 regions identical, 1 differ)"
    assert format_footer(exact, exact) == "Result: PASS  (byte-exact, 2 of 2 regions identical)"


def test_terminal_lines_hold_no_control_characters():
    manifest = example_validation()
    region = manifest.regions[0].model_copy(update={"name": "\x1b[31mred", "passed": False})
    shown = list(format_lines(manifest.model_copy(update={"passed": False, "regions": (region,)})))
    assert shown
    assert not any("\x1b" in line for line in shown)


@pytest.mark.parametrize(
    ("bounds", "said"),
    [
        ({"absolute": 0.001, "relative": 1e-5}, "atol = 0.001"),
        ({"relative": 1e-5}, "rtol = 1e-05, no absolute bound (--tolerance sets one)"),
        ({"relative": 1e-5, "ulp": 2}, "rtol = 1e-05, ulp = 2, no absolute bound (--tolerance sets one)"),
    ],
)
def test_the_footer_names_bounds_that_were_given_and_no_other(bounds, said):
    numeric = example_validation().model_copy(update={"tolerance": Tolerance(**bounds)})
    assert numeric.mode is Mode.NUMERIC
    assert format_footer(numeric).endswith(f", {said})")


@pytest.mark.parametrize(
    ("kind", "has_ulp"), [("fp16", True), ("uint8", False), ("int64", False), ("bytes", False)]
)
def test_only_floats_have_ulp(kind, has_ulp, tmp_path):
    manifest = example_validation()
    worst = WorstElement(address=0x7F0000000008, offset_bytes=8, expected="3", actual="100")
    update = {"element_type": ElementType(kind), "worst": worst, "max_ulp": 97, "start": None}
    made = manifest.model_copy(update={"regions": (manifest.regions[0].model_copy(update=update),)})
    assert any("97 ULP" in line for line in format_lines(made)) is has_ulp
    assert (">97<" in write_report(made, "k", tmp_path / "report").read_text()) is has_ulp
    console = Console(width=200, file=io.StringIO())
    for section in render(made):
        console.print(section)
    assert (" 97" in console.file.getvalue()) is has_ulp


@pytest.mark.parametrize(
    ("share", "said"), [(1.0, "all of"), (0.0123, "1.2 % of"), (0.5, "50 % of"), (0.998, "all of")]
)
def test_how_much_of_the_bounds_a_variant_uses_is_a_percentage(share, said):
    manifest = example_validation()
    worst = WorstElement(address=0x7F0000000008, offset_bytes=8, expected="3.0", actual="3.1")
    update = {"passed": True, "worst": worst, "worst_share": share, "max_absolute_error": 0.1}
    region = manifest.regions[0].model_copy(update=update)
    made = manifest.model_copy(update={"passed": True, "precision": None, "regions": (region,)})
    assert any(f"; that is {said} what the bounds allow, at 0x" in line for line in format_lines(made))
