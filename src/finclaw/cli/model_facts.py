"""What is known of one model, in words: also what becomes of the wish that it should not think."""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Final

from finclaw.cli.figures import UNKNOWN
from finclaw.kernel.chunk import Features, Price, ThinkingOff
from finclaw.kernel.wishes import THOUGHTS
from finclaw.providers.catalog import Known

ABILITIES: Final = ("tools", "images", "thinking", "caching")
WISHES: Final = ("temperature", "stop_sequences")
"""What may be set for a model, and what some refuse."""
BOUND: Final = (
    "what it thought goes back to it within the same turn only, and only behind exactly what it was thought behind; "
    "what it thought in earlier turns is left out"
)

_OFF: Final[Mapping[ThinkingOff, str]] = {
    "unasked": "it thinks only when it is asked to",
    "none": "it is told not to think",
    "disabled": "it is told not to think",
    "between_tools": "it is told not to think before it answers; between tool calls it still notes a little",
    "never": "cannot be switched off; it is asked for little, and that is paid for like an answer",
}


def facts_of(known: Known) -> Iterator[tuple[str, str]]:
    model = known.model
    can = " ".join(name for name in ABILITIES if getattr(model.features, name))
    yield "window", f"{model.window:,} tokens, of which an answer takes {model.max_output:,} at most"
    yield "price", _price(model.price)
    yield "can", can or UNKNOWN
    if model.features.thinking:
        yield "off", _OFF[model.features.thinking_off]
        yield "thinking", _thinking(model.features)
    if model.features.bound_thinking:
        yield "bound", BOUND
    if refuses := ", ".join(name for name in WISHES if not getattr(model.features, name)):
        yield "refuses", f"{refuses}; what you set is not sent to it"
    if known.aliases:
        yield "aliases", " ".join(known.aliases)
    yield "from", known.origin
    if known.note:
        yield "note", known.note


def dollars(price: Decimal | None) -> str:
    return UNKNOWN if price is None else f"{price.normalize():f}"


def _price(price: Price | None) -> str:
    if price is None:
        return "not known, so that it cannot be used under a budget"
    question, answer, read, write = map(dollars, (price.input, price.output, price.cache_read, price.cache_write))
    return f"${question} in, ${answer} out, ${read} from the cache, ${write} into it, for a million tokens"


def _thinking(features: Features) -> str:
    levels = ", ".join(f"{level} {most:,}" for level, most in THOUGHTS.items() if most)
    how = "it finds out itself how much; how hard it tries is told" if features.adaptive_thinking else "as it is told"
    tools = "; not with tools, which it takes only while it does not think" if features.thinks_without_tools else ""
    return f"{how}, with room for tokens: {levels}{tools}"
