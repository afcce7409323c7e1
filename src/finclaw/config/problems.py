"""Problems of valid settings: models that nobody can answer for or pay for, and variables that are not set."""

import re
from collections.abc import Iterator
from typing import Final, cast

from finclaw.agent.budget.budget import must_have_prices, say_unpriced
from finclaw.clock import SystemClock
from finclaw.config.fill import Given
from finclaw.config.load import Gathered
from finclaw.config.routes import named_models, open_catalog, open_provider
from finclaw.config.schema import Settings
from finclaw.errors import ConfigError
from finclaw.providers.endpoints import is_on_this_machine


def problems_of_models(settings: Settings) -> tuple[str, ...]:
    """Each begins with the setting that it is about, and says what to do."""
    catalog = open_catalog(settings)
    keys: dict[str, str] = {}
    problems: list[str] = []
    for key, reference in named_models(settings).items():
        full = catalog.full_name(reference)
        if full in keys:
            shown = full if reference == full else f"{reference} ({full})"
            says = "stands there twice; it is asked once, so leave one of them out"
            if keys[full] == "agent.model":
                says = "is agent.model itself; name another model, or leave it out"
            problems.append(f"{key}: {shown} {says}")
            continue
        keys[full] = key
        try:
            model = catalog.find(reference)
            open_provider(model, SystemClock(), settings.providers, settings.models)
            must_have_prices(settings.budget, [model])
        except ConfigError as error:
            problems.append(f"{key}: {error}")
    for alias in settings.aliases:
        try:
            catalog.resolve(alias)
        except ConfigError as error:
            problems.append(f"aliases.{alias}: {error}")
    return tuple(problems)


def say_budget(settings: Settings) -> str:
    limit = settings.budget.agent_day_usd
    if limit is None:
        return "no limit for a day (budget.agent_day_usd is null)"
    return f"${limit:.2f} a day for models (budget.agent_day_usd; null lifts it)"


def warnings_of_models(settings: Settings) -> tuple[str, ...]:
    """What does not keep anybody from starting, and costs money that no budget counts: each says what to do."""
    if settings.budget.is_chosen or settings.budget.agent_day_usd is None:
        return ()
    catalog = open_catalog(settings)
    warnings: list[str] = []
    for reference in dict.fromkeys(named_models(settings).values()):
        try:
            model = catalog.find(reference)
        except ConfigError:  # `problems_of_models` reports it
            continue
        if not (model.priced or is_on_this_machine(model, settings.providers, settings.models)):
            warnings.append(f"budget.agent_day_usd cannot count what {reference} costs: {say_unpriced(model)}")
    return tuple(warnings)


_REFERENCE: Final = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*")
"""Only the extension knows which of its texts is a secret; but nothing else looks like this."""


def problems_of_extensions(gathered: Gathered) -> Iterator[str]:
    """A line for each variable that an extension will look for in vain, with the place where it is named."""
    agent = gathered.tree.get("agent", Given({}, "")).section or {}
    listed = agent.get("extensions", Given([], "")).value
    if not isinstance(listed, list):
        return
    for place, each in enumerate(cast("list[Given]", listed), start=1):
        if each.section is not None and "settings" in each.section:
            yield from _problems(gathered, each.section["settings"], f"agent.extensions[{place}].settings")


def _problems(gathered: Gathered, given: Given, key: str) -> Iterator[str]:
    match given.value:
        case list():
            for place, each in enumerate(cast("list[Given]", given.value), start=1):
                yield from _problems(gathered, each, f"{key}[{place}]")
        case str() as text if _REFERENCE.fullmatch(text):
            try:
                gathered.keeper.fetch(key, text)
            except ConfigError as error:
                yield f"{given.where}: {error}"
        case _:
            for name, each in (given.section or {}).items():
                yield from _problems(gathered, each, f"{key}.{name}")
