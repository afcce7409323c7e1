"""The windows of models that neither the catalog nor the settings know, asked of the server that runs them."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace

from finclaw.config.schema import Settings
from finclaw.errors import ConfigError
from finclaw.providers.catalog import Catalog
from finclaw.providers.ollama import PROVIDER, find_window
from finclaw.providers.settings import WELL_KNOWN, ModelSettings, ProviderSettings


def with_windows(settings: Settings, *, load: bool) -> Settings:
    """The settings with the window of every Ollama model that they use and nobody has declared.

    `load`: have the server load it, so that it says what it really gives it. It waits for the server. Raises
    ConfigError.
    """
    found = dict(settings.models)
    for key, full in _unknown_windows(settings):
        given = settings.providers.get(PROVIDER, ProviderSettings())
        declared = settings.models.get(full, ModelSettings())
        base_url = declared.base_url or given.base_url or WELL_KNOWN[PROVIDER].base_url
        try:
            window = find_window(base_url, full.partition("/")[2], load=load)
        except ConfigError as error:
            raise ConfigError(f"{key}: {error}") from error
        found[full] = replace(declared, window=window)
    return settings if found == settings.models else replace(settings, models=found)


async def learn_windows(settings: Settings) -> Settings:
    """The same for a gateway that starts: its model is loaded, as its first message would have it loaded."""
    if next(_unknown_windows(settings), None) is None:
        return settings
    return await asyncio.to_thread(with_windows, settings, load=True)


def _unknown_windows(settings: Settings) -> Iterator[tuple[str, str]]:
    catalog = Catalog(settings.models, settings.aliases, settings.providers)
    chosen = [("agent.model", settings.agent.model)]
    chosen += [(f"agent.fallbacks[{place}]", each) for place, each in enumerate(settings.agent.fallbacks, start=1)]
    for key, reference in chosen:
        full = catalog.full_name(reference)
        if full.startswith(f"{PROVIDER}/") and not catalog.has_window(full):
            yield key, full
