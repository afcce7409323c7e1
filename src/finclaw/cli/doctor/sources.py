"""The checks of live market data: the terms of each source in use, and its answers to questions with known answers."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from finclaw.cli.doctor import DoctorFinding, bad, ok, warn
from finclaw.config.schema import Settings
from finclaw.finance.market_data.source_info import SOURCES

if TYPE_CHECKING:
    from finclaw.finance.live.probe import ProbeResult

_CHECK = "market data"


def checks(settings: Settings | None) -> Iterator[DoctorFinding]:
    """With `market: live` alone. Each source in use is asked over the network."""
    if settings is None or settings.market != "live":
        return
    from finclaw.cli.live_sources import ask_canaries  # noqa: PLC0415  `cold_cpu`: the sources' code, for live alone

    used = settings.market_data.used()
    results = ask_canaries(settings, used)
    for source in used:
        info = SOURCES[source]
        yield ok(_CHECK, f"{info.name} ({info.standing}): {info.terms}")
        yield from (_judge(each) for each in results if each.source == source)
    yield from judge_all(results)


def _judge(result: "ProbeResult") -> DoctorFinding:
    name = SOURCES[result.source].name
    if result.verdict == "right":
        return ok(_CHECK, f"{name}, {result.question}: {result.figures} ({result.milliseconds} ms)")
    if result.verdict == "not asked":
        return ok(_CHECK, f"{name} was not asked: {result.figures}")
    says = f"{name}, {result.question}: {result.figures}"
    return (warn if result.verdict in ("down", "limited") else bad)(_CHECK, says, result.advice)


def judge_all(results: "Sequence[ProbeResult]") -> Iterator[DoctorFinding]:
    """One that is down has a next one in its chain. All of them are a network that is not there."""
    asked = [each for each in results if each.verdict != "not asked"]
    if asked and all(each.verdict == "down" for each in asked):
        yield bad(_CHECK, "no source answers", "look at this machine's network, or use the demo market: market: demo")
