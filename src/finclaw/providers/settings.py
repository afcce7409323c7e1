"""Settings of providers and models: who is asked, where, with which key; and what is known of a model."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from decimal import Decimal
from typing import Annotated, Final, Literal, NamedTuple
from urllib.parse import urlsplit

from msgspec import Meta

from finclaw.errors import ConfigError
from finclaw.kernel.chunk import ThinkingOff, Vocabulary
from finclaw.redaction import Secret

Kind = Literal["anthropic", "openai", "offline"]
Tokens = Annotated[int, Meta(ge=1)]
THE_KEY: Final = "default"
"""What the only key of a provider is called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderSettings:
    """Somebody who answers. What is left out of `anthropic`, `openai` or `ollama` is as everybody has it."""

    kind: Kind | None = None
    """The protocol it speaks; `openai` is spoken by most servers of one's own."""
    base_url: str | None = None
    """Where it is; for a server of the kind `openai` the part before `/chat/completions`."""
    key: Secret | None = None
    """What it knows you by."""
    keys: Mapping[str, Secret] = field(default_factory=dict[str, Secret])
    """Several of them instead, under names of your own, such as `{work: env:WORK_KEY, spare: env:SPARE_KEY}`: the
    next is taken when one is refused or used up. Only the names are ever shown."""
    first_byte_s: Annotated[float, Meta(gt=0)] | None = None
    """How long an answer may take to begin, in seconds; null for 120, or 300 on a server of your own, which reads long
    questions slowly. `pipeline.timeout_ms` ends the wait all the same; keep `pipeline.stall_abort_s` above it too."""
    idle_s: Annotated[float, Meta(gt=0)] | None = None
    """How long an answer may fall silent once it has begun, in seconds; null for 60. Raise it for a server that shows
    nothing while its model thinks in between. After a longer silence it is asked to go on from where it stood."""
    total_s: Annotated[float, Meta(gt=0)] | None = None
    """How long one answer may take in all, in seconds; null for as long as the message has. Longer counts as silence:
    it is asked again, and then the fallbacks are, and whoever is asked goes on where the answer stood."""

    def __post_init__(self) -> None:
        _must_be_address(self.base_url)
        if self.keys and self.key is not None:
            raise ConfigError("keys stands beside key, and only one of them can count; write every key under keys")

    @property
    def credentials(self) -> Mapping[str, Secret]:
        """Every key by its name, in the order in which they are tried."""
        if self.keys or self.key is None:
            return self.keys
        return {THE_KEY: self.key}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """What is known of a model. Whatever is left out is as in the catalog."""

    window: Tokens | None = None
    """How many tokens it holds, question and answer together."""
    max_output: Tokens | None = None
    """The longest answer it can give, in tokens."""
    input_price: Decimal | None = None
    """US dollars for a million tokens of the question. Without a price no budget can be kept."""
    output_price: Decimal | None = None
    """The same for the answer."""
    cache_read_price: Decimal | None = None
    """For what comes from the cache. If left out it is the catalog's part of `input_price`; where that is not known, a
    tenth of it for the kind `anthropic`, and all of it for others."""
    cache_write_price: Decimal | None = None
    """For what goes into the cache. If left out, likewise; not known, it is a quarter more than `input_price` for the
    kind `anthropic`, and `input_price` for others."""
    tools: bool | None = None
    """Whether it can call tools."""
    images: bool | None = None
    """Whether it can look at pictures."""
    thinking: bool | None = None
    """Whether it can think before it answers."""
    caching: bool | None = None
    """Whether it can cache the beginning of a request."""
    temperature: bool | None = None
    """Whether it takes a temperature."""
    stop_sequences: bool | None = None
    """Whether it takes words at which to stop; OpenAI's models that think refuse them."""
    max_completion_tokens: bool | None = None
    """Whether it wants its output limit by this name, and not as `max_tokens`."""
    adaptive_thinking: bool | None = None
    """Whether it finds out itself how much to think, and refuses a budget of tokens for it."""
    thinks_without_tools: bool | None = None
    """Whether it takes tools only while it does not think; with tools it is told not to."""
    bound_thinking: bool | None = None
    """Whether its thoughts are tied to all that stood before them; then they go back within their own turn only."""
    thinking_off: ThinkingOff | None = None
    """How it is told not to think. `unasked`: it only does when asked to; `never`: it cannot be told;
    else by its API's word: `none` as effort, `disabled` or `between_tools` as the type of its thinking."""
    vocabulary: Vocabulary | None = None
    """Whose tokens come nearest to its own, for estimates."""
    base_url: str | None = None
    """Where this one is, if not where its provider is; the provider's key does not go there."""
    key: Secret | None = None
    """What it knows you by, if not by the provider's key."""

    def __post_init__(self) -> None:
        _must_be_address(self.base_url)
        prices: dict[str, Decimal | None] = {
            each.name: getattr(self, each.name) for each in fields(self) if each.name.endswith("_price")
        }
        for name, price in prices.items():
            if price is not None and not (price.is_finite() and price >= 0):
                raise ConfigError(f"{name} is {price}; give US dollars for a million tokens, 0 or more")
            if price is not None and (self.input_price is None or self.output_price is None):
                raise ConfigError(f"{name} is no price alone; declare both input_price and output_price")


def _must_be_address(url: str | None) -> None:
    try:
        parts = None if url is None else urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    if parts is not None and not (parts.scheme in ("http", "https") and parts.hostname):
        raise ConfigError("base_url is no address; give one that begins with https:// or http://")


class WellKnown(NamedTuple):
    """A provider that needs no settings but its key."""

    kind: Kind
    base_url: str = ""
    variable: str = ""
    """Where its key is looked for. Empty: it needs none."""


WELL_KNOWN: Final[Mapping[str, WellKnown]] = {
    "offline": WellKnown("offline"),
    "anthropic": WellKnown("anthropic", "https://api.anthropic.com", "ANTHROPIC_API_KEY"),
    "openai": WellKnown("openai", "https://api.openai.com/v1", "OPENAI_API_KEY"),
    "ollama": WellKnown("openai", "http://127.0.0.1:11434/v1"),
}


def kind_of(name: str, providers: Mapping[str, ProviderSettings]) -> Kind | None:
    """None: nobody said what such a provider speaks."""
    given = providers.get(name)
    if given is not None and given.kind is not None:
        return given.kind
    known = WELL_KNOWN.get(name)
    return known.kind if known is not None else None


def with_usual_keys(
    providers: Mapping[str, ProviderSettings], environ: Mapping[str, str]
) -> Mapping[str, ProviderSettings]:
    """A key from the usual variable never goes to another address than the provider's own."""
    usual: dict[str, ProviderSettings] = {}
    for name, known in WELL_KNOWN.items():
        given = providers.get(name, ProviderSettings())
        key = environ.get(known.variable, "") if known.variable else ""
        if key and not given.credentials and given.base_url in (None, known.base_url):
            usual[name] = replace(given, key=Secret(key))
    return {**providers, **usual}


def with_ollama_address(
    providers: Mapping[str, ProviderSettings], environ: Mapping[str, str]
) -> Mapping[str, ProviderSettings]:
    """Where OLLAMA_HOST says that it is, as Ollama's own tools take it; what the settings say wins."""
    host = environ.get("OLLAMA_HOST", "").strip()
    given = providers.get("ollama", ProviderSettings())
    if not host or given.base_url is not None:
        return providers
    try:
        parts = urlsplit(host if "://" in host else f"http://{host}")
        default_port = 11_434
        if "://" in host:
            default_port = 443 if parts.scheme == "https" else 80
        port = parts.port or default_port
    except ValueError:
        return providers
    if not parts.hostname or parts.scheme not in ("http", "https"):
        return providers
    # A server is told by the same variable to listen everywhere; that is no place to go to.
    name = "127.0.0.1" if parts.hostname in ("0.0.0.0", "::") else parts.hostname
    there = f"[{name}]" if ":" in name else name
    return {**providers, "ollama": replace(given, base_url=f"{parts.scheme}://{there}:{port}/v1")}
