"""The dated report of what the live sources answered, as a page of Markdown."""

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime

from finclaw.finance.live.canaries import KNOWN_ON
from finclaw.finance.live.probe import ProbeResult
from finclaw.finance.market_data.source_info import SOURCES
from finclaw.redaction import hide_known_secrets


def write_report(results: Sequence[ProbeResult], asked_at: datetime, elsewhere: Collection[str] = ()) -> str:
    """`elsewhere`: sources that were asked at addresses of the operator's own, which proves nothing of the vendor."""
    return "\n".join(_lines(results, asked_at, elsewhere)) + "\n"


def _lines(results: Sequence[ProbeResult], asked_at: datetime, elsewhere: Collection[str]) -> Iterator[str]:
    asked = [each for each in results if each.verdict != "not asked"]
    right = sum(each.verdict == "right" for each in asked)
    yield "# Live report"
    yield ""
    yield f"`make live` asked the sources on {asked_at:%Y-%m-%d} at {asked_at:%H:%M} UTC."
    yield f"{right} of {len(asked)} answers were right: they passed the checks of every price, and were in the range"
    yield f"known on {KNOWN_ON}."
    yield ""
    yield "| source | standing | canary | verdict | figures | time |"
    yield "|---|---|---|---|---|--:|"
    for each in results:
        info = SOURCES[each.source]
        time = f"{each.milliseconds} ms" if each.verdict != "not asked" else "–"
        told = f"{each.figures}; {each.advice}" if each.advice else each.figures
        verdict = f"**{each.verdict}**{' at another address' if each.source in elsewhere else ''}"
        cells = (f"`{each.source}`", info.standing, each.question or "–", verdict, _cell(told), time)
        yield f"| {' | '.join(cells)} |"


def _cell(text: str) -> str:
    """On one line, and without the sign that ends a cell: an error quotes what a stranger answered."""
    return " ".join(hide_known_secrets(text).replace("|", "/").replace("<", "‹").split())[:300]
