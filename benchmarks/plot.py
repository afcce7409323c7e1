"""A bar chart on a logarithmic scale as SVG, in plain Python."""

import math
from collections.abc import Sequence
from html import escape

WIDTH, BAR, GAP, LEFT, RIGHT, TOP = 760, 18, 9, 300, 70, 44

STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #24292f }
  .title { font-weight: 600 }
  .quiet { fill: #57606a; font-size: 11px }
  .bar { fill: #8c959f } .ours { fill: #0969da } .reference { fill: #57606a }
  .grid { stroke: #d0d7de; stroke-width: 1 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .quiet { fill: #8d96a0 } .grid { stroke: #30363d }
    .bar { fill: #6e7681 } .ours { fill: #58a6ff } .reference { fill: #9198a1 }
  }
"""


def bars(title: str, rows: Sequence[tuple[str, float, str]], unit: str) -> str:
    """Rows of name, value and class (`ours`, `reference` or nothing), drawn in the order given."""
    low = 10.0 ** math.floor(math.log10(min(value for _, value, _ in rows)))
    high = 10.0 ** math.ceil(math.log10(max(value for _, value, _ in rows)))
    height = TOP + len(rows) * (BAR + GAP) + 34

    def across(value: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * math.log10(value / low) / math.log10(high / low)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        f"<title>{escape(title)}</title><style>{STYLE}</style>",
        f'<text class="title" x="0" y="18">{escape(title)}</text>',
    ]
    tick = low
    while tick <= high * 1.001:
        x = across(tick)
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 8}" y2="{height - 26}"/>')
        parts.append(f'<text class="quiet" x="{x:.1f}" y="{height - 10}" text-anchor="middle">{tick:g} {unit}</text>')
        tick *= 10
    for number, (name, value, kind) in enumerate(rows):
        y = TOP + number * (BAR + GAP)
        length = across(value) - LEFT
        parts.append(f'<text x="{LEFT - 10}" y="{y + 13}" text-anchor="end">{escape(name)}</text>')
        parts.append(f'<rect class="bar {kind}" x="{LEFT}" y="{y}" width="{length:.1f}" height="{BAR}" rx="2"/>')
        parts.append(f'<text x="{LEFT + length + 6:.1f}" y="{y + 13}">{value:.3g}</text>')
    return "\n".join((*parts, "</svg>")) + "\n"
