"""The checks of the settings, for `finclaw doctor` and `finclaw config check`. They change nothing."""

import os
from argparse import Namespace
from collections.abc import Iterator

from finclaw.cli.arguments import settings_from
from finclaw.cli.doctor import DoctorFinding, bad, ok, warn
from finclaw.config.fill import BadSettings
from finclaw.config.load import Gathered, gather
from finclaw.config.problems import problems_of_extensions, problems_of_models, warnings_of_models
from finclaw.config.routes import chosen_model, with_windows
from finclaw.errors import ConfigError
from finclaw.redaction.redact import redact_for_display


def checks(args: Namespace) -> Iterator[DoctorFinding]:
    found = problems(args)
    yield from (bad("settings", problem) for problem in found)
    if not found:
        settings = settings_from(args)
        yield ok("settings", f"valid; market {settings.market}, model {chosen_model(settings)}")
        yield from (warn("budget", each) for each in warnings(args))


def problems(args: Namespace) -> tuple[str, ...]:
    return (*own_problems(args), *_problems_of_extensions(args))


def own_problems(args: Namespace) -> tuple[str, ...]:
    """Without what only an extension would miss."""
    try:
        settings = with_windows(gather_settings(args).settings(), load=False)
    except BadSettings as error:
        return error.problems
    except ConfigError as error:
        return (redact_for_display(str(error)),)
    return tuple(map(redact_for_display, problems_of_models(settings)))


def loading_problems(args: Namespace) -> tuple[str, ...]:
    """What shows only when the extensions are loaded, where they get that far."""
    from finclaw.cli.doctor.extensions import problems_when_loaded  # noqa: PLC0415  start-up: it loads the extensions

    try:
        settings = gather_settings(args).settings()
        if _problems_of_extensions(args):
            return ()
        with_model = not own_problems(args)
        if with_model:
            settings = with_windows(settings, load=False)
    except ConfigError:  # `own_problems` reports it
        return ()
    return tuple(map(redact_for_display, problems_when_loaded(settings, with_model=with_model)))


def warnings(args: Namespace) -> tuple[str, ...]:
    """What valid settings should not be left at."""
    return tuple(map(redact_for_display, warnings_of_models(gather_settings(args).settings())))


def _problems_of_extensions(args: Namespace) -> tuple[str, ...]:
    try:
        return tuple(map(redact_for_display, problems_of_extensions(gather_settings(args))))
    except ConfigError:  # nothing can be gathered, which `own_problems` reports
        return ()


def gather_settings(args: Namespace) -> Gathered:
    return gather(state=args.state, config=args.config, environ=os.environ)
