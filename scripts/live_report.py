"""Asks every live source its canaries and writes docs/live-report.md: `make live`.

Keys, contact and switched-off sources are those of your settings (`--state DIR`, `--config FILE`). The report is dated,
and meant to be committed: until there is one, the README calls every source not yet verified live.
"""

import argparse
import os
import sys
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from finclaw.cli.arguments import add_state_options
from finclaw.cli.doctor.sources import ask_canaries
from finclaw.clock import SystemClock
from finclaw.config.load import load_settings
from finclaw.finance.live import KNOWN_ON, ProbeResult
from finclaw.finance.market_data.source_info import SOURCES
from finclaw.redaction import hide_known_secrets
from finclaw.redaction.redact import redact_for_display


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    add_state_options(parser)
    parser.add_argument("--out", type=Path, default=Path("docs/live-report.md"), help="where the report is written")
    args = parser.parse_args()
    settings = load_settings(state=args.state, config=args.config, environ=os.environ)
    results = ask_canaries(settings, tuple(SOURCES))
    for each in results:
        print(redact_for_display(f"{each.verdict:<9} {each.source:<13} {each.question or '–'}: {each.figures}"))
    asked = [each for each in results if each.verdict != "not asked"]
    if all(each.verdict == "down" for each in asked):
        print("no source answered, so nothing was written: is there a network?", file=sys.stderr)
        return 1
    elsewhere = {api.partition(".")[0] for api in settings.market_data.urls}
    report = write_report(results, SystemClock().now().astimezone(UTC), elsewhere)
    args.out.write_text(redact_for_display(report), encoding="utf-8")
    print(f"written: {args.out}")
    return 0 if all(each.verdict == "right" for each in asked) else 1


def write_report(results: Sequence[ProbeResult], asked_at: datetime, elsewhere: Collection[str] = ()) -> str:
    """`elsewhere`: sources that were asked at addresses of the operator's own, which proves nothing of the vendor."""
    return "\n".join(_report_lines(results, asked_at, elsewhere)) + "\n"


def _report_lines(results: Sequence[ProbeResult], asked_at: datetime, elsewhere: Collection[str]) -> Iterator[str]:
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
        time = f"{each.milliseconds} ms"
        if each.verdict == "not asked":
            time = "–"
        verdict = f"**{each.verdict}**"
        if each.source in elsewhere:
            verdict += " at another address"
        figures = _cell("; ".join(filter(None, (each.figures, each.advice))))
        cells = (f"`{each.source}`", info.standing, each.question or "–", verdict, figures, time)
        yield f"| {' | '.join(cells)} |"


def _cell(text: str) -> str:
    """On one line, and without the sign that ends a cell: an error quotes what a stranger answered."""
    return " ".join(hide_known_secrets(text).replace("|", "/").replace("<", "‹").split())[:300]


if __name__ == "__main__":
    raise SystemExit(main())
