"""The catalog of models: the data file beside this one, and what the settings add to it.

Read when first asked: the offline model, for one, needs none of it.
"""

import difflib
from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Final, Literal, NamedTuple, get_args

import msgspec
from msgspec import Struct

from finclaw.errors import ConfigError
from finclaw.kernel.chunk import Features, Model, Price, ThinkingOff, Vocabulary
from finclaw.providers.settings import Kind, ModelSettings, ProviderSettings, kind_of

FILE: Final = Path(__file__).with_name("models.json")
_ANTHROPICS: Final = Decimal("0.1"), Decimal("1.25")

Feature = Literal[
    "tools",
    "images",
    "thinking",
    "caching",
    "temperature",
    "stop_sequences",
    "max_completion_tokens",
    "adaptive_thinking",
    "thinks_without_tools",
    "bound_thinking",
]


class Listed(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    provider: str
    name: str
    window: int
    max_output: int
    features: tuple[Feature, ...]
    thinking_off: ThinkingOff = "unasked"
    as_of: str
    source: str
    price: Price | None = None
    vocabulary: Vocabulary = "o200k"
    also: tuple[str, ...] = ()  # other names of the same model, sent as they are written
    aliases: tuple[str, ...] = ()  # short names for people
    note: str = ""

    @property
    def id(self) -> str:
        return f"{self.provider}/{self.name}"


class CatalogEntry(NamedTuple):
    model: Model
    origin: str  # for a person: where its figures come from
    aliases: tuple[str, ...] = ()
    note: str = ""


@cache
def load_listed() -> tuple[Listed, ...]:
    return msgspec.json.decode(FILE.read_bytes(), type=tuple[Listed, ...])


class Catalog:
    """Every model that can be named, by `provider/name` or by an alias. The settings win over the data file."""

    def __init__(
        self,
        models: Mapping[str, ModelSettings] | None = None,
        aliases: Mapping[str, str] | None = None,
        providers: Mapping[str, ProviderSettings] | None = None,
    ) -> None:
        self._declared = models or {}
        self._aliases = aliases or {}
        self._providers = providers or {}

    def find(self, reference: str) -> Model:
        """Raises ConfigError for a model of which neither the data file nor the settings know the window."""
        full = self.resolve(reference)
        provider, _, name = full.partition("/")
        base = self._from_file(provider, name)
        declared = self._declared.get(full)
        if not self.has_window(full):
            raise ConfigError(
                f"the model {full} is not in the catalog{self._near(full)}; "
                f"to use it all the same, say how much it takes in: `models: {{{full}: {{window: TOKENS}}}}`"
            )
        kind = kind_of(provider, self._providers)
        base = base or _unlisted_model(provider, name, kind)
        return base if declared is None else _apply_settings(base, declared, kind)

    def has_window(self, full: str) -> bool:
        declared = self._declared.get(full)
        if declared is not None and declared.window is not None:
            return True
        return self._line(*full.partition("/")[::2]) is not None

    def resolve(self, reference: str) -> str:
        """`provider/name` for an alias, and for anything else itself."""
        seen: list[str] = []
        while "/" not in reference:
            if reference in seen:
                steps = " → ".join([*seen, reference])
                raise ConfigError(f"the alias {reference} leads back to itself: {steps}; give it a `provider/model`")
            seen.append(reference)
            target = self._aliases.get(reference) or _file_aliases().get(reference)
            if target is None:
                raise ConfigError(
                    f"{reference!r} names no model and no alias{self._near(reference)}; "
                    "write `provider/model`, or add it under `aliases`; `finclaw models list` shows what there is"
                )
            reference = target
        return reference

    def full_name(self, reference: str) -> str:
        """Resolve an alias; one that leads nowhere stays as it is, which whoever looks it up is told."""
        try:
            return self.resolve(reference)
        except ConfigError:
            return reference

    def all(self) -> Iterator[CatalogEntry]:
        """Those of the data file in its order, then those that only the settings know."""
        in_file = [each.id for each in load_listed()]
        own = (full for full, declared in self._declared.items() if declared.window is not None)
        yield from map(self.describe, dict.fromkeys((*in_file, *own)))

    def describe(self, reference: str) -> CatalogEntry:
        full = self.resolve(reference)
        line = self._line(*full.partition("/")[::2])
        own = tuple(name for name in self._aliases if self.full_name(name) == full)
        if line is None:
            return CatalogEntry(self.find(full), "your settings", own)
        origin = f"catalog of {line.as_of}: {line.source}"
        if full in self._declared:
            origin += ", with your settings"
        is_it = full == line.id
        shipped = tuple(name for name in line.aliases if is_it and name not in self._aliases)
        return CatalogEntry(self.find(full), origin, (*own, *shipped), line.note)

    def _from_file(self, provider: str, name: str) -> Model | None:
        line = self._line(provider, name)
        if line is None:
            return None
        model = _model(line, name)
        if line.provider == provider:
            return model
        # Somebody's own server of a known API has its models, but nobody knows what it charges.
        return msgspec.structs.replace(model, provider=provider, price=None)

    def _line(self, provider: str, name: str) -> Listed | None:
        return _by_name().get((provider, name)) or _by_name().get((kind_of(provider, self._providers) or "", name))

    def _near(self, wanted: str) -> str:
        names = (*self._declared, *self._aliases, *_file_aliases(), *("/".join(key) for key in _by_name()))
        folded = {name.casefold(): name for name in names}
        close = difflib.get_close_matches(wanted.casefold(), folded, n=2, cutoff=0.7)
        return f" (did you mean {' or '.join(folded[each] for each in close)}?)" if close else ""


def _price_of(declared: ModelSettings, base: Price | None, kind: Kind | None) -> Price | None:
    """A cache price that nobody stated is not free: it follows from that of the input."""
    if declared.input_price is None or declared.output_price is None:
        return base
    read, write = _cache_shares(base, kind)
    return Price(
        declared.input_price,
        declared.output_price,
        declared.input_price * read if declared.cache_read_price is None else declared.cache_read_price,
        declared.input_price * write if declared.cache_write_price is None else declared.cache_write_price,
    )


def _cache_shares(base: Price | None, kind: Kind | None) -> tuple[Decimal, Decimal]:
    """The cache's prices as parts of the input's: from the file, else Anthropic's, else the whole, never too little."""
    if base is not None and base.input:
        return base.cache_read / base.input, base.cache_write / base.input
    return _ANTHROPICS if kind == "anthropic" else (Decimal(1), Decimal(1))


def _apply_settings(base: Model, declared: ModelSettings, kind: Kind | None) -> Model:
    said = {name: getattr(declared, name) for name in Features.__struct_fields__}
    features = {name: value for name, value in said.items() if value is not None}
    return Model(
        base.provider,
        base.name,
        window=declared.window or base.window,
        max_output=declared.max_output or base.max_output,
        price=_price_of(declared, base.price, kind),
        features=msgspec.structs.replace(base.features, **features),
        vocabulary=declared.vocabulary or base.vocabulary,
    )


def _model(line: Listed, name: str) -> Model:
    return Model(
        line.provider,
        name,
        window=line.window,
        max_output=line.max_output,
        price=line.price,
        features=Features(
            **{each: each in line.features for each in get_args(Feature)}, thinking_off=line.thinking_off
        ),
        vocabulary=line.vocabulary,
    )


def _unlisted_model(provider: str, name: str, kind: Kind | None) -> Model:
    if kind == "anthropic":
        return Model(provider, name, features=Features(caching=True), vocabulary="claude")
    return Model(provider, name)


@cache
def _by_name() -> Mapping[tuple[str, str], Listed]:
    return {(line.provider, name): line for line in load_listed() for name in (line.name, *line.also)}


@cache
def _file_aliases() -> Mapping[str, str]:
    return {alias: line.id for line in load_listed() for alias in line.aliases}
