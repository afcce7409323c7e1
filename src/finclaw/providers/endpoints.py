"""Endpoints of a model: the right protocol at the right address, one for each of the keys."""

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from finclaw.errors import ConfigError
from finclaw.kernel.chunk import Model
from finclaw.kernel.port import Clock, Provider
from finclaw.providers.http.address import FIRST_BYTE_S, IDLE_S, first_byte_timeout, is_loopback, is_private_address
from finclaw.providers.settings import THE_KEY, WELL_KNOWN, Kind, ModelSettings, ProviderSettings, kind_of
from finclaw.redaction import Secret

if TYPE_CHECKING:
    from finclaw.providers.http.image_join import ReadBlob
    from finclaw.providers.openai.request import OutputLimit


class ProviderEndpoint(NamedTuple):
    """An address with a key and timeouts. Two models of the same endpoint share one provider."""

    provider: str
    kind: Kind
    base_url: str = ""
    credential: str = THE_KEY  # the key's name
    key: Secret | None = None
    first_byte: float = FIRST_BYTE_S
    idle: float = IDLE_S
    caching: bool = False
    output_limit: "OutputLimit | None" = None


def list_endpoints(
    model: Model, providers: Mapping[str, ProviderSettings], models: Mapping[str, ModelSettings]
) -> Iterator[ProviderEndpoint]:
    """One for each key, at least one. Raises ConfigError where there is no such provider, or no key."""
    kind = _kind_of_model(model, providers)
    if kind == "offline":
        yield ProviderEndpoint(model.provider, kind)
        return
    base_url, keys = _find_address(model, kind, providers, models.get(model.id))
    given = providers.get(model.provider, ProviderSettings())
    for name, key in keys.items():
        if key is None and kind == "anthropic" and not is_private_address(base_url):
            raise _no_key_error(model.provider, kind, base_url)
        yield ProviderEndpoint(
            model.provider,
            kind,
            base_url,
            name,
            key,
            given.first_byte_s or first_byte_timeout(model.provider, base_url),
            given.idle_s or IDLE_S,
            caching=kind == "anthropic" and model.features.caching,
            output_limit="max_completion_tokens" if model.features.max_completion_tokens else None,
        )


def is_on_this_machine(
    model: Model, providers: Mapping[str, ProviderSettings], models: Mapping[str, ModelSettings]
) -> bool:
    """Whether nobody else can send a bill for it: its server has a loopback address."""
    try:
        return all(
            endpoint.kind == "offline" or is_loopback(endpoint.base_url)
            for endpoint in list_endpoints(model, providers, models)
        )
    except ConfigError:  # it cannot be asked at all
        return True


def open_endpoint(endpoint: ProviderEndpoint, clock: Clock, read_blob: "ReadBlob | None" = None) -> Provider:
    """A client of the endpoint's API. Nothing is sent yet, and nothing imported that this kind does not need."""
    if endpoint.kind == "offline":
        raise ValueError("the offline assistant is no client of an API")
    if endpoint.kind == "openai":
        from finclaw.providers.openai.provider import OpenAIProvider  # noqa: PLC0415  `cold_cpu`: an HTTP client at the start

        return OpenAIProvider(
            endpoint.base_url,
            endpoint.key,
            clock=clock,
            name=endpoint.provider,
            output_limit=endpoint.output_limit,
            first_byte=endpoint.first_byte,
            idle=endpoint.idle,
            read_blob=read_blob,
        )
    from finclaw.providers.anthropic.provider import AnthropicProvider  # noqa: PLC0415  `cold_cpu`: an HTTP client at the start

    return AnthropicProvider(
        endpoint.base_url,
        endpoint.key,
        name=endpoint.provider,
        clock=clock,
        caching=endpoint.caching,
        first_byte=endpoint.first_byte,
        idle=endpoint.idle,
        read_blob=read_blob,
    )


def _kind_of_model(model: Model, providers: Mapping[str, ProviderSettings]) -> Kind:
    kind = kind_of(model.provider, providers)
    if kind is not None:
        return kind
    if model.provider in providers:
        raise ConfigError(f"providers.{model.provider} does not say what it speaks; add `kind: openai` or another")
    known = {*providers, *WELL_KNOWN}
    close = difflib.get_close_matches(model.provider, known, n=1)
    hint = f"there are {', '.join(sorted(known))}"
    if close:
        hint = f"did you mean {close[0]}?"
    raise ConfigError(
        f"there is no provider {model.provider!r} for the model {model.name!r}; {hint}; "
        "or add one under `providers` with its `kind` and `base_url`"
    )


def _find_address(
    model: Model, kind: Kind, providers: Mapping[str, ProviderSettings], own: ModelSettings | None
) -> tuple[str, Mapping[str, Secret | None]]:
    """Where it is, and the keys for there. A model that lives elsewhere than its provider is not shown its keys."""
    given = providers.get(model.provider, ProviderSettings())
    usual = WELL_KNOWN.get(model.provider) or WELL_KNOWN[kind]
    base_url = given.base_url or usual.base_url
    keys: Mapping[str, Secret | None] = given.credentials or {THE_KEY: None}
    if own is not None and (own.base_url is not None or own.key is not None):
        base_url = own.base_url or base_url
        keys = {f"models.{model.id}": own.key}  # a name of its own: what becomes of it says nothing of others
    if None in keys.values() and _is_the_makers(base_url, kind):
        raise _no_key_error(model.provider, kind, base_url)
    return base_url, keys


def _is_the_makers(base_url: str, kind: Kind) -> bool:
    return urlsplit(base_url).hostname == urlsplit(WELL_KNOWN[kind].base_url).hostname


def _no_key_error(name: str, kind: Kind, base_url: str) -> ConfigError:
    """The maker's own key is proposed for the maker's own address, and for no other: it would be given away there."""
    known = WELL_KNOWN.get(name)
    makers = _is_the_makers(base_url, kind)
    variable = WELL_KNOWN[kind].variable if makers else "_".join(re.findall("[A-Z0-9]+", name.upper())) + "_KEY"
    usual = f"set the environment variable {variable}, or " if makers and known is not None else ""
    return ConfigError(
        f"{name} wants a key, and there is none; {usual}write under `providers` in the settings: "
        f"`{name}: {{key: env:{variable}}}`, or `file:PATH` with a file that only you can read"
    )
