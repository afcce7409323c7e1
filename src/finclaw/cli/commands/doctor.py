"""`finclaw doctor`: look at everything an operator could have wrong, and say what to do. It changes nothing.

It takes no lock, wakes no message and makes no directory, so it may be run at any time, beside a gateway or before
there is anything at all. With `market: live` it asks each source something, and counts that as the gateway does.
"""

import os
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Iterator

from finclaw.cli.arguments import add_json_option, add_state_options, settings_from
from finclaw.cli.doctor import DoctorFinding, bad, extensions, gateway, machine
from finclaw.cli.doctor import settings as settings_checks
from finclaw.cli.doctor import state as state_directory_checks
from finclaw.cli.formatting import colored, print_result
from finclaw.config.load import state_directory
from finclaw.config.routes import with_windows
from finclaw.config.schema import Settings
from finclaw.errors import ConfigError
from finclaw.redaction.redact import redact_for_display

_COLOURS = {"ok": "32", "warn": "33", "bad": "31"}


def arguments(parser: ArgumentParser) -> None:
    add_state_options(parser)
    add_json_option(parser)


def run(args: Namespace) -> int:
    findings: list[DoctorFinding] = []
    for found in _look(args):
        # Settings, files and extensions are quoted in it, and somebody will paste it where others read.
        says = redact_for_display(found.says)
        finding = DoctorFinding(found.check, found.level, says, redact_for_display(found.advice))
        findings.append(finding)
        if not args.json:  # some of it takes a moment; nobody should stare at nothing
            level = colored(f"{finding.level:<5}", _COLOURS[finding.level])
            print(f"{level} {finding.check:<12} {finding.line}", flush=True)
    healthy = all(finding.level != "bad" for finding in findings)
    print_result(args, {"healthy": healthy, "findings": findings}, [_sum(findings)])
    return int(not healthy)


def _look(args: Namespace) -> Iterator[DoctorFinding]:
    yield from machine.checks()
    yield from settings_checks.checks(args)
    try:
        state = state_directory(args.state, os.environ)
    except ConfigError as error:
        yield bad("state", str(error))
        return
    yield from state_directory_checks.checks(state)
    yield from state_directory_checks.check_disk(state)
    yield state_directory_checks.check_database(state)
    settings: Settings | None = None
    if not settings_checks.own_problems(args):
        settings = with_windows(settings_from(args), load=False)
    yield from gateway.checks(state, settings)
    if settings is None:
        return
    yield from extensions.checks(settings)
    if settings.market == "live":
        from finclaw.cli.doctor import sources  # noqa: PLC0415  `cold_cpu`: the sources' code, for live prices alone

        yield from sources.checks(settings)


def _sum(findings: list[DoctorFinding]) -> str:
    count = Counter(finding.level for finding in findings)
    if count["bad"]:
        return f"{count['bad']} bad, {count['warn']} to think about, {count['ok']} ok: begin with the first bad one"
    if count["warn"]:
        return f"nothing is bad; {count['warn']} to think about, {count['ok']} ok"
    return f"all {count['ok']} ok"
