"""Bar charts as SVG: horizontal, stacked, with a unit on the axis. They are rectangles and texts."""

from __future__ import annotations

from dataclasses import dataclass
from xml.sax.saxutils import escape

WIDTH, LABELS, RIGHT, BAR, GAP, TOP, BOTTOM = 760, 190, 70, 18, 8, 34, 44
COLOURS = ("#4878a8", "#e0a040", "#70a870", "#b06090", "#909090")


@dataclass(frozen=True)
class Bar:
    """A row: its label, the lengths of its parts, and a text behind it."""

    label: str
    parts: tuple[float, ...]
    text: str = ""


def draw_bars(
    title: str, unit: str, names: tuple[str, ...], bars: list[Bar], marks: dict[float, str] | None = None
) -> str:
    """Draw a chart. ``names`` are those of the parts, ``marks`` vertical lines with their labels."""
    marks = marks or {}
    most = max([sum(bar.parts) for bar in bars] + list(marks)) or 1
    step = _choose_step(most)
    end = step * -(-most // step)
    height = TOP + len(bars) * (BAR + GAP) + BOTTOM
    scale = (WIDTH - LABELS - RIGHT) / end
    base = height - BOTTOM
    shapes = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="sans-serif" '
        f'font-size="12" role="img" aria-label="{escape(title)}">',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        *_draw_legend(names),
    ]
    value = 0.0
    while value <= end + step / 2:
        x = LABELS + value * scale
        shapes.append(f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{base}" stroke="#e4e4e4"/>')
        shapes.append(_text(x, base + 15, f"{value:g}", "middle"))
        value += step
    shapes.append(_text(LABELS + (WIDTH - LABELS - RIGHT) / 2, height - 8, unit, "middle"))
    for number, bar in enumerate(bars):
        y, x = TOP + number * (BAR + GAP), float(LABELS)
        shapes.append(_text(LABELS - 6, y + 13, bar.label, "end"))
        for part, colour in zip(bar.parts, COLOURS, strict=False):
            shapes.append(
                f'<rect x="{x:.1f}" y="{y}" width="{part * scale:.1f}" height="{BAR}" fill="{colour}"/>'
            )
            x += part * scale
        shapes.append(_text(x + 5, y + 13, bar.text, "start"))
    for place, label in marks.items():
        x = LABELS + place * scale
        shapes.append(
            f'<line x1="{x:.1f}" y1="{TOP - 4}" x2="{x:.1f}" y2="{base}" stroke="#b03030" '
            'stroke-dasharray="4 3"/>'
        )
        shapes.append(_text(x, TOP - 8, label, "middle"))
    return "\n".join([*shapes, "</svg>", ""])


def _draw_legend(names: tuple[str, ...]) -> list[str]:
    shapes, x = [], 8.0
    for name, colour in zip(names, COLOURS, strict=False):
        shapes.append(f'<rect x="{x:.0f}" y="8" width="11" height="11" fill="{colour}"/>')
        shapes.append(_text(x + 16, 18, name, "start"))
        x += 34 + 7 * len(name)
    return shapes


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y}" text-anchor="{anchor}" fill="#303030">{escape(text)}</text>'


def _choose_step(most: float) -> float:
    """Return the distance of the axis's numbers: 1, 2 or 5 times a power of ten, four to ten of them."""
    power = 10.0 ** (len(str(int(most))) - 1) if most >= 1 else 0.1
    for factor in (0.1, 0.2, 0.5, 1.0, 2.0):
        if most / (power * factor) <= 10:
            return power * factor
    return power * 5
