"""A validation as a page of its own with pictures: ``index.html`` and one PNG for each part that differs.

PNG needs a header, zlib and three checksums; that is no reason for an imaging library.
"""

from __future__ import annotations

import html
import struct
import zlib
from typing import TYPE_CHECKING

import numpy as np

from kerncap_stages.machine.user_folder import write_file
from kerncap_stages.pages.verdict import footer
from kerncap_stages.text import formats
from kerncap_stages.text.formats import same_instructions

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy.typing as npt

    from kerncap_stages.manifests.validation import RegionResult, Validation

_COLUMNS = 32
_CELL_PIXELS = 12
_COLOURS = np.array([[24, 32, 52], [250, 214, 72], [220, 50, 32]], np.float64)  # none, some, all bytes differ
_STYLE = """body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:70rem;padding:0 1rem}
table{border-collapse:collapse;width:100%}
th,td{text-align:left;padding:.25rem .6rem;border-bottom:1px solid #8884}
td.n{text-align:right;font-variant-numeric:tabular-nums}.PASS{color:#187a3c}.FAIL{color:#b3261e}
.key i{display:inline-block;width:1.2rem;height:.8rem;margin:0 .4rem 0 1rem}.key i.wide{width:6rem}
code{font-size:.92em;overflow-wrap:anywhere}img{image-rendering:pixelated;max-width:100%}
@media(prefers-color-scheme:dark){body{background:#15181d;color:#e6e6e6}.PASS{color:#5fd68b}.FAIL{color:#ff8a80}}"""


def write_report(manifest: Validation, title: str, folder: Path, below: str = "") -> Path:
    """Write the page and its pictures into ``folder``, or ``below/`` in it; returns the page."""
    place = f"{below}/" if below else ""
    folder.mkdir(parents=True, exist_ok=True)
    figures = []
    for number, region in enumerate(region for region in manifest.regions if region.heat):
        name = f"heat-{number}.png"
        write_file(folder, place + name, heat_png(region.heat, region.size_bytes or 1))
        figures.append((name, region))
    page = place + "index.html"
    write_file(folder, page, _page(manifest, title, figures).encode())
    return folder / page


def heat_png(heat: Sequence[int], size_bytes: int) -> bytes:
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
    return png(np.rint(grid).astype(np.uint8))


def png(pixels: npt.NDArray[np.uint8]) -> bytes:
    """pixels: uint8[height, width, 3], red, green, blue."""
    height, width, _ = pixels.shape
    lines = np.concatenate((np.zeros((height, 1), np.uint8), pixels.reshape(height, -1)), axis=1)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(lines.tobytes(), 9)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def _page(manifest: Validation, title: str, figures: Sequence[tuple[str, RegionResult]]) -> str:
    verdict = "PASS" if manifest.passed else "FAIL"
    reasons = "".join(f"<li>{html.escape(reason)}</li>" for reason in manifest.reasons)
    rows = "".join(_row(region) for region in manifest.regions)
    strays = "".join(
        f"<li>{formats.count(stray.size_bytes, 'byte')} in region <code>{stray.base_address:#x}</code>, "
        f"the first at <code>+{(stray.ranges[0][0] if stray.ranges else 0):#x}</code></li>"
        for stray in manifest.stray_writes
    )
    pictures = "".join(
        f'<figure><img src="{name}" alt="where bytes differ"><figcaption>{html.escape(region.name)}'
        f"{_changed(region)}: {formats.count(region.size_bytes or 0, 'byte')}, row by row"
        "</figcaption></figure>"
        for name, region in figures
    )
    heads = ("", "output", "type", "elements", "out of bounds", "max error", "ULP", "NaN", "worst")
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style>'
        f'<h1>Validation: <span class="{verdict}">{verdict}</span></h1>'
        f"<p><code>{html.escape(title)}</code></p>"
        f"<p>{html.escape(footer(manifest))}</p>{_unedited(manifest)}<ul>{reasons}</ul>"
        f"<table><tr>{''.join(f'<th>{head}</th>' for head in heads)}</tr>{rows}</table>"
        + (f"<h2>Stray writes</h2><ul>{strays}</ul>" if strays else "")
        + (f"<h2>Where outputs differ</h2>{_legend()}{pictures}" if pictures else "")
        + "</html>\n"
    )


def _unedited(manifest: Validation) -> str:
    if manifest.unedited is None:
        return ""
    text = same_instructions(manifest.unedited)
    return f"<p>Same instructions before any edit: {html.escape(text)}</p>"


def _legend() -> str:
    equal, one, every = (f"rgb({red:.0f},{green:.0f},{blue:.0f})" for red, green, blue in _COLOURS)
    return (
        f'<p class="key">of the bytes of a square: <i style="background:{equal}"></i>none differs'
        f'<i class="wide" style="background:linear-gradient(90deg,{one},{every})"></i>'
        "from one that differs to all of them</p>"
    )


def _row(region: RegionResult) -> str:
    verdict = "PASS" if region.passed else "FAIL"
    worst = ""
    if region.worst is not None:
        worst = f"{region.worst.actual} instead of {region.worst.expected} at {region.worst.address:#x}"
    numbers = (
        f"{region.elements:,}",
        f"{region.elements_out_of_bounds:,}",
        f"{region.max_absolute_error or 0.0:.4g}",
        f"{region.max_ulp or 0:,}",
        f"{region.nan_actual:,} / {region.nan_expected:,}",
    )
    cells = "".join(f'<td class="n">{number}</td>' for number in numbers)
    return (
        f'<tr><td class="{verdict}">{verdict}</td><td>{html.escape(region.name)}{_changed(region)}</td>'
        f"<td>{region.element_type.value}</td>{cells}<td>{html.escape(worst)}</td></tr>"
    )


def _changed(region: RegionResult) -> str:
    return "" if region.changed_region is None else f", from another pre-state of {region.changed_region:#x}"
