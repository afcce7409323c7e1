"""Problems of valid settings: models that nobody can answer for or pay for, and variables that are not set.

No server is asked and no extension is run. Every problem is reported at once.
"""

import re
from collections.abc import Iterator
from typing import Final, cast

from finclaw.agent.budget.budget import must_have_prices, say_unpriced
from finclaw.clock import SystemClock
from finclaw.config.fill import Given
from finclaw.config.load import Gathered
from finclaw.config.routes import open_provider
from finclaw.config.schema import Settings
from finclaw.errors import ConfigError
from finclaw.kernel.chunk import Model
from finclaw.providers.catalog import Catalog
from finclaw.providers.endpoints import is_on_this_machine


def problems_of_models(settings: Settings) -> tuple[str, ...]:
    """Each begins with the setting that it is about, and says what to do."""
    return tuple(_Check(settings).problems())


def say_budget(settings: Settings) -> str:
    """The limit of a day, in a line."""
    limit = settings.budget.agent_day_usd
    if limit is None:
        return "no limit for a day (budget.agent_day_usd is null)"
    return f"${limit:.2f} a day for models (budget.agent_day_usd; null lifts it)"


def warnings_of_models(settings: Settings) -> tuple[str, ...]:
    """What does not keep anybody from starting, and costs money that no budget counts: each says what to do."""
    if settings.budget.is_chosen or settings.budget.agent_day_usd is None:
        return ()
    catalog = Catalog(settings.models, settings.aliases, settings.providers)
    return tuple(
        f"budget.agent_day_usd cannot count what {reference} costs: {say_unpriced(model)}"
        for reference in dict.fromkeys((settings.agent.model, *settings.agent.fallbacks))
        if (model := _find_model(catalog, reference)) is not None
        and not model.priced
        and not is_on_this_machine(model, settings.providers, settings.models)
    )


def _find_model(catalog: Catalog, reference: str) -> Model | None:
    try:
        return catalog.find(reference)
    except ConfigError:  # which is a problem, and told as such
        return None


class _Check:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._catalog = Catalog(settings.models, settings.aliases, settings.providers)

    def problems(self) -> Iterator[str]:
        agent = self._settings.agent
        yield from self._of_model("agent.model", agent.model)
        named = {self._catalog.full_name(agent.model): "agent.model"}
        for place, reference in enumerate(agent.fallbacks, start=1):
            key, full = f"agent.fallbacks[{place}]", self._catalog.full_name(reference)
            if full in named:
                yield f"{key}: {self._repeats(reference, named[full])}"
            else:
                yield from self._of_model(key, reference)
            named.setdefault(full, key)
        for alias in self._settings.aliases:
            yield from self._of_alias(alias)

    def _of_model(self, key: str, reference: str) -> Iterator[str]:
        """Whether somebody is there to answer, and may be paid."""
        try:
            model = self._catalog.find(reference)
            open_provider(model, SystemClock(), self._settings.providers, self._settings.models)
            must_have_prices(self._settings.budget, [model])
        except ConfigError as error:
            yield f"{key}: {error}"

    def _of_alias(self, alias: str) -> Iterator[str]:
        try:
            self._catalog.resolve(alias)
        except ConfigError as error:
            yield f"aliases.{alias}: {error}"

    def _repeats(self, reference: str, before: str) -> str:
        full = self._catalog.full_name(reference)
        shown = full if reference == full else f"{reference} ({full})"
        if before == "agent.model":
            return f"{shown} is agent.model itself; name another model, or leave it out"
        return f"{shown} stands there twice; it is asked once, so leave one of them out"


# ── extensions: whether what their settings refer to is there ───────────────────────────────────────────────────


_REFERENCE: Final = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*")
"""Only the extension knows which of its texts is a secret; but nothing else looks like this."""


def problems_of_extensions(gathered: Gathered) -> tuple[str, ...]:
    """A line for each variable that an extension will look for in vain, with the place where it is named."""
    agent = gathered.tree.get("agent", Given({}, "")).section or {}
    listed = agent.get("extensions", Given([], "")).value
    extensions = cast("list[Given]", listed) if isinstance(listed, list) else []
    return tuple(
        problem
        for place, each in enumerate(extensions, start=1)
        if each.section is not None and "settings" in each.section
        for problem in _problems(gathered, each.section["settings"], f"agent.extensions[{place}].settings")
    )


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
