"""What is known of models, in one place: the data file beside this one, and what the settings add to it.

Read when first asked: the offline model, for one, needs none of it.
"""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Final, Literal, NamedTuple

import msgspec
from msgspec import Struct

from finclaw.errors import ConfigError
from finclaw.kernel.chunk import Features, Model, Price, Vocabulary
from finclaw.providers.settings import Kind, ModelSettings, ProviderSettings, kind_of

FILE: Final = Path(__file__).with_name("models.json")
_READ: Final = Decimal("0.1")
_WRITE: Final = Decimal("1.25")
_FEATURES: Final = Features.__struct_fields__

Feature = Literal["tools", "images", "thinking", "caching", "temperature", "max_completion_tokens"]


class Listed(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A line of the data file."""

    provider: str
    name: str
    window: int
    max_output: int
    features: tuple[Feature, ...]
    as_of: str
    source: str
    price: Price | None = None
    vocabulary: Vocabulary = "o200k"
    also: tuple[str, ...] = ()
    """Other names of the same model, sent as they are written."""
    aliases: tuple[str, ...] = ()
    """Short names for people."""
    note: str = ""


class Known(NamedTuple):
    model: Model
    origin: str
    """For a person: where its figures come from."""
    aliases: tuple[str, ...] = ()
    note: str = ""


@cache
def listed() -> tuple[Listed, ...]:
    """The data file: a millisecond, once."""
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
        base, declared = self._from_file(provider, name), self._declared.get(full)
        if base is None and (declared is None or declared.window is None):
            raise ConfigError(
                f"the model {full} is not in the catalog{self._near(full)}; "
                f"or declare its limits in the settings: `models: {{{full}: {{window: TOKENS, max_output: TOKENS}}}}`"
            )
        base = base or _unlisted(provider, name, kind_of(provider, self._providers))
        return base if declared is None else _overridden(base, declared)

    def resolve(self, reference: str) -> str:
        """`provider/name` for an alias, and for anything else itself."""
        seen: list[str] = []
        while "/" not in reference:
            if reference in seen:
                raise ConfigError(f"the alias {reference} leads back to itself: {' → '.join([*seen, reference])}")
            seen.append(reference)
            target = self._aliases.get(reference) or _file_aliases().get(reference)
            if target is None:
                raise ConfigError(
                    f"{reference!r} names no model and no alias{self._near(reference)}; "
                    "write `provider/model`, or add it under `aliases`; `finclaw models list` shows what there is"
                )
            reference = target
        return reference

    def all(self) -> Iterator[Known]:
        """Those of the data file in its order, then those that only the settings know."""
        in_file = {f"{each.provider}/{each.name}": each for each in listed()}
        for full, each in in_file.items():
            origin = f"catalog of {each.as_of}: {each.source}"
            yield self._known(full, origin + (", with your settings" if full in self._declared else ""), each)
        for full, declared in self._declared.items():
            if full not in in_file and declared.window is not None:
                yield self._known(full, "your settings")

    def _known(self, full: str, origin: str, line: Listed | None = None) -> Known:
        own = tuple(name for name in self._aliases if self._leads_to(name, full))
        shipped = () if line is None else tuple(name for name in line.aliases if name not in self._aliases)
        return Known(self.find(full), origin, (*own, *shipped), "" if line is None else line.note)

    def _leads_to(self, alias: str, full: str) -> bool:
        try:
            return self.resolve(alias) == full
        except ConfigError:  # told to whoever uses it
            return False

    def _from_file(self, provider: str, name: str) -> Model | None:
        line = _by_name().get((provider, name))
        if line is not None:
            return _model(line, name)
        # Somebody's own door to a known API has its models, but nobody knows what it charges.
        line = _by_name().get((kind_of(provider, self._providers) or "", name))
        return None if line is None else msgspec.structs.replace(_model(line, name), provider=provider, price=None)

    def _near(self, wanted: str) -> str:
        import difflib  # noqa: PLC0415  only who errs needs it

        names = (*self._declared, *self._aliases, *_file_aliases(), *("/".join(key) for key in _by_name()))
        folded = {name.casefold(): name for name in names}
        close = difflib.get_close_matches(wanted.casefold(), folded, n=2, cutoff=0.7)
        return f" (did you mean {' or '.join(folded[each] for each in close)}?)" if close else ""


def price_of(
    input: Decimal, output: Decimal, cache_read: Decimal | None = None, cache_write: Decimal | None = None
) -> Price:
    """A cache price that nobody stated is not free: it follows from that of the input, as nearly everywhere."""
    return Price(
        input,
        output,
        input * _READ if cache_read is None else cache_read,
        input * _WRITE if cache_write is None else cache_write,
    )


def _overridden(base: Model, declared: ModelSettings) -> Model:
    price = base.price
    if declared.input_price is not None and declared.output_price is not None:
        price = price_of(
            declared.input_price, declared.output_price, declared.cache_read_price, declared.cache_write_price
        )
    return Model(
        base.provider,
        base.name,
        window=declared.window or base.window,
        max_output=declared.max_output or base.max_output,
        price=price,
        features=_features_of(base.features, declared),
        vocabulary=declared.vocabulary or base.vocabulary,
    )


def _features_of(base: Features, declared: ModelSettings) -> Features:
    said = {name: getattr(declared, name) for name in _FEATURES}
    return msgspec.structs.replace(base, **{name: value for name, value in said.items() if value is not None})


def _model(line: Listed, name: str) -> Model:
    return Model(
        line.provider,
        name,
        window=line.window,
        max_output=line.max_output,
        price=line.price,
        features=Features(**{each: each in line.features for each in _FEATURES}),
        vocabulary=line.vocabulary,
    )


def _unlisted(provider: str, name: str, kind: Kind | None) -> Model:
    """What can be said of any model that is reached in this way."""
    match kind:
        case "anthropic":
            return Model(provider, name, features=Features(caching=True), vocabulary="claude")
        case _:
            return Model(provider, name)


@cache
def _by_name() -> Mapping[tuple[str, str], Listed]:
    return {(line.provider, name): line for line in listed() for name in (line.name, *line.also)}


@cache
def _file_aliases() -> Mapping[str, str]:
    return {alias: f"{line.provider}/{line.name}" for line in listed() for alias in line.aliases}
