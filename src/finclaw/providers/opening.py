"""From a model to whoever answers for it: the right protocol at the right address, with the right key."""

import difflib
from collections.abc import Mapping
from urllib.parse import urlsplit

from finclaw.errors import ConfigError
from finclaw.kernel.chunk import Model
from finclaw.kernel.port import Clock, Provider
from finclaw.kernel.secret import Secret
from finclaw.providers.settings import WELL_KNOWN, Kind, ModelSettings, ProviderSettings, kind_of


def open_provider(
    model: Model,
    clock: Clock,
    providers: Mapping[str, ProviderSettings],
    models: Mapping[str, ModelSettings],
) -> Provider:
    """Nothing is sent yet. Raises ConfigError where it would surely be refused: no such provider, or no key."""
    kind = _kind(model, providers)
    if kind == "offline":
        from finclaw.providers.offline import OfflineProvider  # noqa: PLC0415  each kind loads only what it needs

        return OfflineProvider()
    base_url, key = _door(model, kind, providers, models.get(f"{model.provider}/{model.name}"))
    if kind == "openai":
        from finclaw.providers.openai import OpenAIProvider  # noqa: PLC0415

        limit = "max_completion_tokens" if model.features.max_completion_tokens else None
        return OpenAIProvider(base_url, key, clock=clock, name=model.provider, output_limit=limit)
    from finclaw.providers.anthropic import AnthropicProvider  # noqa: PLC0415

    if key is None:
        raise _no_key(model.provider, kind)
    return AnthropicProvider(base_url, key, name=model.provider, clock=clock, caching=model.features.caching)


def _kind(model: Model, providers: Mapping[str, ProviderSettings]) -> Kind:
    kind = kind_of(model.provider, providers)
    if kind is not None:
        return kind
    if model.provider in providers:
        raise ConfigError(f"providers.{model.provider} does not say what it speaks; add `kind: openai` or another")
    known = {*providers, *WELL_KNOWN}
    close = difflib.get_close_matches(model.provider, known, n=1)
    hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(sorted(known))}"
    raise ConfigError(
        f"there is no provider {model.provider!r} for the model {model.name!r}; {hint}; "
        "or add one under `providers` with its `kind` and `base_url`"
    )


def _door(
    model: Model, kind: Kind, providers: Mapping[str, ProviderSettings], own: ModelSettings | None
) -> tuple[str, Secret | None]:
    """A model that lives elsewhere than its provider is not shown the provider's key."""
    given = providers.get(model.provider, ProviderSettings())
    usual = WELL_KNOWN.get(model.provider) or WELL_KNOWN[kind]
    base_url = given.base_url or usual.base_url
    key = given.key
    if own is not None and own.base_url is not None:
        base_url, key = own.base_url, None
    if own is not None and own.key is not None:
        key = own.key
    if key is None and urlsplit(base_url).hostname == urlsplit(WELL_KNOWN[kind].base_url).hostname:
        raise _no_key(model.provider, kind)
    return base_url, key


def _no_key(name: str, kind: Kind) -> ConfigError:
    known = WELL_KNOWN.get(name)
    variable = known.variable if known is not None and known.variable else WELL_KNOWN[kind].variable
    usual = f"set the environment variable {variable}, or " if known is not None and known.variable else ""
    return ConfigError(
        f"{name} wants a key, and there is none; {usual}write under `providers` in the settings: "
        f"`{name}: {{key: env:{variable}}}`, or `file:PATH` with a file that only you can read"
    )
