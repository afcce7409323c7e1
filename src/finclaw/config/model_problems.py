"""What is wrong with the models that the settings name: nobody is asked, and every problem is told at once."""

from collections.abc import Iterator

from finclaw.agent.purse import must_have_prices
from finclaw.config.schema import Settings
from finclaw.errors import ConfigError
from finclaw.kernel.clock import SystemClock
from finclaw.providers.catalog import Catalog
from finclaw.providers.opening import open_provider


def problems_of_models(settings: Settings) -> tuple[str, ...]:
    """Each begins with the setting that it is about, and says what to do."""
    return tuple(_Check(settings).problems())


class _Check:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._catalog = Catalog(settings.models, settings.aliases, settings.providers)

    def problems(self) -> Iterator[str]:
        agent = self._settings.agent
        yield from self._of_model("agent.model", agent.model)
        named = {self._catalog.named(agent.model): "agent.model"}
        for place, reference in enumerate(agent.fallbacks, start=1):
            key, full = f"agent.fallbacks[{place}]", self._catalog.named(reference)
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
        full = self._catalog.named(reference)
        shown = full if reference == full else f"{reference} ({full})"
        if before == "agent.model":
            return f"{shown} is agent.model itself; name another model, or leave it out"
        return f"{shown} stands there twice; it is asked once, so leave one of them out"
