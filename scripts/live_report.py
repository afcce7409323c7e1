"""Asks every live source its canaries and writes docs/live-report.md: `make live`.

Keys, contact and switched-off sources are those of your settings (`--state DIR`, `--config FILE`). The report is dated,
and meant to be committed: until there is one, the README calls every source not yet verified live.
"""

import argparse
import os
import sys
from datetime import UTC
from pathlib import Path

from finclaw.cli.arguments import add_state_options
from finclaw.cli.doctor.sources import ask_canaries
from finclaw.clock import SystemClock
from finclaw.config.load import load_settings
from finclaw.finance.live import write_report
from finclaw.finance.market_data.source_info import SOURCES
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


if __name__ == "__main__":
    raise SystemExit(main())
