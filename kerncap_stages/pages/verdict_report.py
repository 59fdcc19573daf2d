"""A validation as a page of its own with pictures: ``index.html`` and one PNG for each part that differs.

PNG needs a header, zlib and three checksums; that is no reason for an imaging library.
"""

from __future__ import annotations

import struct
import zlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import jinja2
import numpy as np

from kerncap_stages.machine.user_folder import write_file
from kerncap_stages.pages.verdict import describe_start, format_footer, has_no_ulp
from kerncap_stages.text import formats
from kerncap_stages.text.formats import describe_same_instructions

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from kerncap_stages.manifests.validation import RegionResult, Validation

# Beside this file: templates/ is for projects, and what lies there shapes them.
_TEMPLATE = Path(__file__).with_name("verdict_report.html.j2")
_COLUMNS = 32
_CELL_PIXELS = 12
_COLOURS = np.array([[24, 32, 52], [250, 214, 72], [220, 50, 32]], np.float64)  # none, some, all bytes differ


def write_report(manifest: Validation, title: str, folder: Path, below: str = "") -> Path:
    """Write the page and its pictures into ``folder``, or ``below/`` in it; returns the page."""
    place = f"{below}/" if below else ""
    folder.mkdir(parents=True, exist_ok=True)
    figures = []
    for number, region in enumerate(region for region in manifest.regions if region.heat):
        name = f"heat-{number}.png"
        write_file(folder, place + name, draw_heat_png(region.heat, region.size_bytes or 1))
        figures.append((name, region))
    page = place + "index.html"
    write_file(folder, page, _render_page(manifest, title, figures).encode())
    return folder / page


def draw_heat_png(heat: Sequence[int], size_bytes: int) -> bytes:
    """A picture of where bytes differ: pieces of the region row by row, from its first byte to its last."""
    share = np.clip(np.array(heat, np.float64) * len(heat) / size_bytes, 0.0, 1.0)
    rows = -(-len(heat) // _COLUMNS)
    cells = np.zeros(rows * _COLUMNS)
    # The least difference must be seen.
    cells[: len(heat)] = np.where(share > 0, 0.5 + 0.5 * share, 0.0)
    at = cells.reshape(rows, _COLUMNS) * (len(_COLOURS) - 1)
    low = np.minimum(at.astype(int), len(_COLOURS) - 2)
    part = (at - low)[..., None]
    pixels = _COLOURS[low] * (1 - part) + _COLOURS[low + 1] * part
    grid = np.repeat(np.repeat(pixels, _CELL_PIXELS, axis=0), _CELL_PIXELS, axis=1)
    return encode_png(np.rint(grid).astype(np.uint8))


def encode_png(pixels: npt.NDArray[np.uint8]) -> bytes:
    """pixels: uint8[height, width, 3], red, green, blue."""
    height, width, _ = pixels.shape
    lines = np.concatenate((np.zeros((height, 1), np.uint8), pixels.reshape(height, -1)), axis=1)

    def make_chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = (
        make_chunk(b"IHDR", head)
        + make_chunk(b"IDAT", zlib.compress(lines.tobytes(), 9))
        + make_chunk(b"IEND", b"")
    )
    return b"\x89PNG\r\n\x1a\n" + body


def _render_page(manifest: Validation, title: str, figures: Sequence[tuple[str, RegionResult]]) -> str:
    equal, one, every = (f"rgb({red:.0f},{green:.0f},{blue:.0f})" for red, green, blue in _COLOURS)
    return _load_template().render(
        title=title,
        verdict=manifest,
        footer=format_footer(manifest),
        unedited=None if manifest.unedited is None else describe_same_instructions(manifest.unedited),
        figures=figures,
        colours={"equal": equal, "one": one, "every": every},
    )


@cache
def _load_template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATE.parent),
        autoescape=True,  # names of kernels and regions come from programs
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["count"] = formats.count
    environment.globals["describe_start"] = describe_start
    environment.globals["has_no_ulp"] = has_no_ulp
    return environment.get_template(_TEMPLATE.name)
