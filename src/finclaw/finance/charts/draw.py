"""Charts as PNG by matplotlib, an optional dependency (`charts`) that is imported with the first picture."""

import io
import logging
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from finclaw.finance.charts.chart import WATERMARK, Chart, extremes_of, headline_of, source_of, title_of
from finclaw.finance.market import DEMO_SOURCE, Bar
from finclaw.finance.venue import VENUES
from finclaw.kernel.person import ChartColors
from finclaw.text import Language

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH = 1_000
HEIGHT = 600
DPI = 100
_UP_DOWN: Final[dict[ChartColors, tuple[str, str]]] = {
    "red-up": ("#d32f2f", "#1565c0"),
    "green-up": ("#1b8a4b", "#c62828"),
}
_INK = "#222222"
_PALE = "#777777"
_GRID = "#e3e3e3"
_KOREAN_FONTS: Final = (
    *("Noto Sans KR", "Noto Sans CJK KR", "Noto Sans CJK JP", "NanumGothic", "Nanum Gothic", "NanumBarunGothic"),
    *("Malgun Gothic", "Apple SD Gothic Neo", "AppleGothic", "UnDotum"),
)
_LATIN_FONT: Final = "DejaVu Sans"  # it comes with matplotlib, and has the triangles
_MOST_TICKS: Final = 7
_DRAWING: Final = Lock()


def can_draw() -> bool:
    """Whether the extra is installed. It is not loaded."""
    return find_spec("matplotlib") is not None


def draw_png(chart: Chart, language: Language) -> bytes:
    """It takes a while: for a worker thread. Without a Korean font the words are English."""
    with _DRAWING:
        picture = io.BytesIO()
        figure: Any = build_figure(chart, language, korean_font())
        figure.savefig(picture, format="png", dpi=DPI)
        return picture.getvalue()


@cache
def korean_font() -> str | None:
    fonts: Any = import_module("matplotlib.font_manager")
    logging.getLogger(fonts.__name__).setLevel(logging.ERROR)  # that a font has no bold letters is no news
    manager = fonts.fontManager
    return _first_korean(manager) or _first_korean(_add_new_fonts(manager, fonts.findSystemFonts()))


def _first_korean(manager: Any) -> str | None:
    installed = {str(each.name) for each in manager.ttflist}
    return next((name for name in _KOREAN_FONTS if name in installed), None)


def _add_new_fonts(manager: Any, paths: Sequence[str]) -> Any:
    """Make known the fonts that were installed since matplotlib wrote its own list, which it keeps on disk."""
    known = {str(each.fname) for each in manager.ttflist}
    for path in paths:
        if path not in known:
            with suppress(OSError, RuntimeError):  # a broken file is no font
                manager.addfont(path)
    return manager


def build_figure(chart: Chart, language: Language, font: str | None) -> "Figure":
    """`font` is one with Korean letters; None: there is none, and nothing Korean is written."""
    from matplotlib.figure import Figure  # noqa: PLC0415  optional: the extra `charts`

    fonts = [_LATIN_FONT]
    if font is None:
        language = "en"
    elif language == "ko":
        fonts.insert(0, font)
    figure: Any = Figure(figsize=(WIDTH / DPI, HEIGHT / DPI), dpi=DPI, facecolor="white")
    has_volume = any(bar.volume for bar in chart.bars)
    grid = figure.add_gridspec(5, 1, left=0.05, right=0.90, top=0.82, bottom=0.14, hspace=0.12)
    if has_volume:
        prices = figure.add_subplot(grid[:4])
        volumes = figure.add_subplot(grid[4], sharex=prices)
        _draw_volume(volumes, chart)
        _style_axes(volumes, ticks=2)
    else:
        prices = figure.add_subplot(grid[:])
    if chart.style == "candle":
        _draw_candles(prices, chart)
    else:
        _draw_line(prices, chart)
    prices.axhline(float(chart.move.start), color=_PALE, linewidth=0.9, linestyle=(0, (4, 3)))
    _mark_extremes(prices, chart, extremes_of(chart, language), fonts)
    _style_axes(prices, ticks=6)
    _label_times(figure.axes[-1], chart)
    _write(figure, chart, language, fonts)
    return figure


def _colors(chart: Chart) -> tuple[str, str]:
    return _UP_DOWN[chart.colors or "green-up"]


def _trend_color(chart: Chart) -> str:
    up, down = _colors(chart)
    if chart.move.change > 0:
        return up
    if chart.move.change < 0:
        return down
    return _PALE


def _draw_line(axes: Any, chart: Chart) -> None:
    closes = [float(bar.close) for bar in chart.bars]
    places = range(len(closes))
    color = _trend_color(chart)
    axes.plot(places, closes, color=color, linewidth=1.8, marker="o" if len(closes) < 8 else None)
    axes.fill_between(places, closes, min(*closes, float(chart.move.start)), color=color, alpha=0.08, linewidth=0)


def _draw_candles(axes: Any, chart: Chart) -> None:
    """A body from open to close on a wick from low to high. One that rose is hollow, so that no colour is needed."""
    up, down = _colors(chart)
    lows = [float(bar.low) for bar in chart.bars]
    highs = [float(bar.high) for bar in chart.bars]
    thinnest = (max(highs) - min(lows)) / 400 or 0.001
    for rose, color in ((True, up), (False, down)):
        places = [place for place, bar in enumerate(chart.bars) if (bar.close >= bar.open) is rose]
        bars = [chart.bars[place] for place in places]
        bottoms = [float(min(bar.open, bar.close)) for bar in bars]
        heights = [max(float(abs(bar.close - bar.open)), thinnest) for bar in bars]
        axes.vlines(places, [lows[each] for each in places], [highs[each] for each in places], color=color, linewidth=1)
        face = "white" if rose else color
        axes.bar(
            places, heights, bottom=bottoms, width=_width(chart), color=face, edgecolor=color, linewidth=1.1, zorder=3
        )


def _width(chart: Chart) -> float:
    return 0.64 if len(chart.bars) > 12 else 0.3


def _mark_extremes(axes: Any, chart: Chart, labels: tuple[str, str], fonts: Sequence[str]) -> None:
    top = float(chart.highest.high)
    bottom = float(chart.lowest.low)
    base = float(chart.move.start)
    room = (top - bottom or 1) * 0.14
    axes.set_ylim(min(bottom, base) - room, max(top, base) + room)
    high, low = labels
    style: dict[str, Any] = {"textcoords": "offset points", "fontsize": 9, "color": _INK, "parse_math": False}
    for bar, at, label, offset, side in (
        (chart.highest, top, high, 8, "bottom"),
        (chart.lowest, bottom, low, -8, "top"),
    ):
        place = chart.bars.index(bar)
        align = _alignment_at(place / max(1, len(chart.bars) - 1))
        axes.plot(place, at, marker="_", color=_INK, markersize=6)
        axes.annotate(label, (place, at), xytext=(0, offset), ha=align, va=side, fontfamily=list(fonts), **style)


def _alignment_at(share: float) -> str:
    if share < 0.1:
        return "left"
    if share > 0.9:
        return "right"
    return "center"


def _draw_volume(axes: Any, chart: Chart) -> None:
    up, down = _colors(chart)
    colors = [up if bar.close >= bar.open else down for bar in chart.bars]
    axes.bar(range(len(chart.bars)), [bar.volume for bar in chart.bars], width=_width(chart), color=colors, alpha=0.45)
    axes.set_ylim(bottom=0)


def _style_axes(axes: Any, ticks: int) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator  # noqa: PLC0415  optional: the extra `charts`

    axes.yaxis.tick_right()
    axes.yaxis.set_major_locator(MaxNLocator(nbins=ticks))
    axes.yaxis.set_major_formatter(FuncFormatter(_format_tick))
    axes.grid(axis="y", color=_GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, labelsize=9, labelcolor=_PALE, labelbottom=False)
    for side in axes.spines.values():
        side.set_visible(False)


def _format_tick(value: float, _: int) -> str:
    for size, letter in ((1e9, "B"), (1e6, "M")):
        if abs(value) >= size:
            return f"{value / size:,.1f}{letter}"
    if not value:
        return ""  # the foot of the volumes needs no figure
    if abs(value) >= 1_000 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:,.2f}"


def _label_times(axes: Any, chart: Chart) -> None:
    """Bars stand side by side, without gaps for nights and weekends, so some are labelled and not the days."""
    count = len(chart.bars)
    shown = min(_MOST_TICKS, count)
    places = sorted({round(step * (count - 1) / max(1, shown - 1)) for step in range(shown)})
    axes.set_xticks(places)
    axes.set_xticklabels([_time_label(chart, chart.bars[place]) for place in places])
    axes.set_xlim(-0.8, count - 0.2)
    axes.tick_params(labelbottom=True)


def _time_label(chart: Chart, bar: Bar) -> str:
    if chart.period == "1D":
        return f"{bar.starts.astimezone(VENUES[chart.instrument.exchange].tz):%H:%M}"
    if chart.period in ("1Y", "5Y"):
        return f"{bar.day:%Y-%m}"
    return f"{bar.day:%m-%d}"


def _write(figure: Any, chart: Chart, language: Language, fonts: Sequence[str]) -> None:
    plain: dict[str, Any] = {"family": list(fonts), "parse_math": False}  # a dollar sign in a name is one
    figure.text(0.05, 0.925, title_of(chart, language), fontsize=17, color=_INK, fontweight="bold", **plain)
    headline = headline_of(chart, language)
    figure.text(0.05, 0.865, headline, fontsize=13, color=_trend_color(chart), **plain)
    figure.text(0.05, 0.035, source_of(chart, language), fontsize=9, color=_PALE, **plain)
    if chart.source == DEMO_SOURCE:
        style: dict[str, Any] = {"fontsize": 40, "alpha": 0.13, "rotation": 20, "ha": "center", "va": "center"}
        figure.text(0.48, 0.5, WATERMARK[language], color=_INK, fontweight="bold", **plain, **style)
