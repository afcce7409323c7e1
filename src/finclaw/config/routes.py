"""Routes to models: what the settings name, looked up in the catalog, with a provider for each key."""

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from finclaw.agent.model.failover import ModelRoute
from finclaw.config.schema import Settings
from finclaw.errors import ConfigError, ModelUnknown
from finclaw.kernel.chunk import Model
from finclaw.kernel.port import Clock, Provider
from finclaw.providers.catalog import Catalog
from finclaw.providers.endpoints import ProviderEndpoint, list_endpoints, open_endpoint
from finclaw.providers.ollama import PROVIDER, find_window
from finclaw.providers.settings import WELL_KNOWN, ModelSettings, ProviderSettings

if TYPE_CHECKING:
    from finclaw.providers.http.image_join import ReadBlob

LONGEST_NAME: Final = 200
"""Characters. Anybody may write one, and looking for what they meant takes longer the more there are."""
MOST_NAMES: Final = 30  # names of models in one error message


def open_catalog(settings: Settings) -> Catalog:
    return Catalog(settings.models, settings.aliases, settings.providers)


def chosen_model(settings: Settings) -> str:
    return open_catalog(settings).full_name(settings.agent.model)


def named_models(settings: Settings) -> dict[str, str]:
    fallbacks = enumerate(settings.agent.fallbacks, start=1)
    return {"agent.model": settings.agent.model} | {f"agent.fallbacks[{place}]": name for place, name in fallbacks}


def open_provider(
    model: Model, clock: Clock, providers: Mapping[str, ProviderSettings], models: Mapping[str, ModelSettings]
) -> Provider:
    """A provider for the model's first endpoint. Nothing is sent yet. Raises ConfigError."""
    return open_any_endpoint(next(list_endpoints(model, providers, models)), clock)


def open_any_endpoint(endpoint: ProviderEndpoint, clock: Clock, read_blob: "ReadBlob | None" = None) -> Provider:
    if endpoint.kind == "offline":
        from finclaw.demo.assistant import OfflineProvider  # noqa: PLC0415  `rss` and start-up: a real model needs none of it

        return OfflineProvider()
    return open_endpoint(endpoint, clock, read_blob)


class ModelRoutes:
    """Routes to models. `default` is the chosen model by each of its keys, then its fallbacks by theirs. A provider
    that was brought along answers for the chosen model, and for no other."""

    def __init__(
        self, settings: Settings, provider: Provider | None, clock: Clock, read_blob: "ReadBlob | None" = None
    ) -> None:
        """Raises ConfigError for a model that nobody knows, or that could surely not be asked."""
        self._providers = settings.providers
        self._models = settings.models
        self._clock = clock
        self._read_blob = read_blob
        self._catalog = open_catalog(settings)
        named = (settings.agent.model, *settings.agent.fallbacks, *settings.models, *settings.aliases)
        self._known = tuple(dict.fromkeys(named))[:MOST_NAMES]
        self._opened: dict[ProviderEndpoint, Provider] = {}
        self._brought: ModelRoute | None = None
        if provider is not None:
            self._brought = ModelRoute(provider, self._at_will(settings.agent.model))
        self.default = (
            *self._find_for("agent.model", settings.agent.model),
            *(route for each in settings.agent.fallbacks for route in self._find_for("agent.fallbacks", each)),
        )

    def pick(self, reference: str) -> tuple[ModelRoute, ...]:
        """Return the routes to a model that somebody named: its own keys, no fallback. Raises ModelUnknown."""
        try:
            return self._find(reference)
        except ConfigError as error:
            text = f"{error}; the settings name {', '.join(self._known)}"
            raise ModelUnknown(text, model=reference) from error

    def find_model(self, reference: str | None) -> Model:
        """Return the model of that name, or the chosen one. Raises ModelUnknown."""
        routes = self.default if reference is None else self.pick(reference)
        return routes[0].model

    def _find(self, reference: str) -> tuple[ModelRoute, ...]:
        if len(reference) > LONGEST_NAME:
            raise ConfigError(f"a text of {len(reference):,} characters names no model; write `provider/model`")
        if self._brought is not None and self._at_will(reference) == self._brought.model:
            return (self._brought,)
        model = self._catalog.find(reference)
        within = self._providers.get(model.provider, ProviderSettings()).total_s
        return tuple(
            ModelRoute(self._open(endpoint), model, endpoint.credential, within)
            for endpoint in list_endpoints(model, self._providers, self._models)
        )

    async def close(self) -> None:
        brought = () if self._brought is None else (self._brought.provider,)
        opened = [*self._opened.values(), *brought]
        self._opened.clear()
        await asyncio.gather(*(provider.close() for provider in opened))

    def _find_for(self, key: str, reference: str) -> tuple[ModelRoute, ...]:
        try:
            return self._find(reference)
        except ConfigError as error:
            raise ConfigError(f"{key}: {error}") from error

    def _open(self, endpoint: ProviderEndpoint) -> Provider:
        provider = self._opened.get(endpoint)
        if provider is None:
            provider = self._opened[endpoint] = open_any_endpoint(endpoint, self._clock, self._read_blob)
        return provider

    def _at_will(self, reference: str) -> Model:
        """Whoever brings a provider along may name its model as they like."""
        try:
            return self._catalog.find(reference)
        except ConfigError:
            name, _, model = reference.partition("/")
            return Model(name, model)


# ── the windows of models that neither the catalog nor the settings know, asked of the server that runs them ────


def with_windows(settings: Settings, *, load: bool) -> Settings:
    """The settings with the window of every Ollama model that they use and nobody has declared. `load`: have the server
    load it, so that it says what it really gives it. It waits for the server. Raises ConfigError."""
    models = dict(settings.models)
    for key, full in _unknown_windows(settings):
        given = settings.providers.get(PROVIDER, ProviderSettings())
        declared = settings.models.get(full, ModelSettings())
        base_url = declared.base_url or given.base_url or WELL_KNOWN[PROVIDER].base_url
        try:
            window = find_window(base_url, full.partition("/")[2], load=load)
        except ConfigError as error:
            raise ConfigError(f"{key}: {error}") from error
        models[full] = replace(declared, window=window)
    return replace(settings, models=models)


async def learn_windows(settings: Settings) -> Settings:
    """The same for a gateway that starts: its model is loaded, as its first message would have it loaded."""
    if next(_unknown_windows(settings), None) is None:
        return settings
    return await asyncio.to_thread(with_windows, settings, load=True)


def _unknown_windows(settings: Settings) -> Iterator[tuple[str, str]]:
    catalog = open_catalog(settings)
    for key, reference in named_models(settings).items():
        full = catalog.full_name(reference)
        if full.startswith(f"{PROVIDER}/") and not catalog.has_window(full):
            yield key, full
