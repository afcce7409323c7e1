"""Which models answer, and by which way: what the settings name, looked up in the catalog."""

from finclaw.agent.asking import ModelRoute
from finclaw.config.schema import Settings
from finclaw.errors import ConfigError
from finclaw.kernel.chunk import Model
from finclaw.kernel.port import Clock, Provider
from finclaw.providers.catalog import Catalog
from finclaw.providers.opening import open_provider


def model_routes(settings: Settings, provider: Provider | None, clock: Clock) -> tuple[ModelRoute, ...]:
    """The chosen model first, then its fallbacks. A provider that was brought along answers for the chosen one."""
    catalog = Catalog(settings.models, settings.aliases, settings.providers)
    if provider is not None:
        chosen = ModelRoute(provider, _at_will(catalog, settings.agent.model))
    else:
        chosen = _route(settings, catalog, settings.agent.model, "agent.model", clock)
    others = settings.agent.fallbacks
    return (chosen, *(_route(settings, catalog, each, "agent.fallbacks", clock) for each in others))


def _at_will(catalog: Catalog, reference: str) -> Model:
    """Whoever brings a provider along may name its model as they like."""
    try:
        return catalog.find(reference)
    except ConfigError:
        name, _, model = reference.partition("/")
        return Model(name, model)


def _route(settings: Settings, catalog: Catalog, reference: str, key: str, clock: Clock) -> ModelRoute:
    try:
        model = catalog.find(reference)
    except ConfigError as error:
        raise ConfigError(f"{key}: {error}") from error
    return ModelRoute(open_provider(model, clock, settings.providers, settings.models), model)
