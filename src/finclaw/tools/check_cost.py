"""An estimate of what checking arguments against a JSON Schema costs, made before anything is checked.

The validator holds Python's global lock while it works, so a check that is too large would stop every conversation.
A schema is weighed once; arguments are measured for each call. Their product bounds the work.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, cast

from msgspec import Struct

from finclaw.tools.pattern_cost import count_states, may_retry

MOST_WORK: Final = 500_000
"""Rules times values, about 0.1 µs each: 50 ms."""
MOST_LISTED_WORK: Final = 10_000
"""Rules times values up to which errors are listed. Each may be one, and the validator finds all of them, 1.5 µs each,
before it gives the first."""
MOST_LISTED_CHARACTERS: Final = 60_000_000
"""Errors times characters: each error quotes the value that it is about."""
LONGEST_INTEGER: Final = 256
"""Bits. The validator's arithmetic with larger ones takes milliseconds for each."""
_MOST_LONG_INTEGERS: Final = 100
"""Integers beyond 64 bits: comparing each of them with each other takes quadratic time."""
_STATES_PER_RULE: Final = 10
"""States of a pattern that take, for one character, as long as one rule for one value."""
_STATES_BY_KEYWORD: Final = {"format": 8, "contentEncoding": 8, "contentMediaType": 8, "minLength": 1, "maxLength": 1}
"""Keywords that read every character of a text, and how many states of a pattern take as long."""
_RULES_PER_RETRY: Final = 2_000
"""Rules that take as long as a pattern that looks ahead or back, until it reaches its limit of steps."""
_MOST_PARTS: Final = 50_000


class Weight(Struct, frozen=True):
    """What a schema has to apply: `parts` to every value, `states` of patterns to every character.

    `retrying` are its patterns that look ahead or back: they may try every text again and again.
    """

    parts: int = 0
    states: int = 0
    retrying: int = 0

    def reading(self, size: "ArgumentsSize") -> int:
        """The work of reading texts, in rules times values."""
        return self.states * size.characters // _STATES_PER_RULE + self.retrying * _RULES_PER_RETRY * size.texts


class ArgumentsSize(Struct):
    """How much there is to be checked: values, characters, and integers that do not fit into 64 bits."""

    values: int = 0
    texts: int = 0
    characters: int = 0
    long_integers: int = 0
    has_longest: bool = False


class CheckWork(Struct, frozen=True):
    """Rules times values, and whether the arguments hold numbers that no check can afford."""

    total: int
    is_too_much: bool
    is_listable: bool


class CheckCost:
    """The weight of one tool's schema: by property, since rules for one property cost nothing for the others."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        properties = schema.get("properties")
        named = cast("dict[str, Any]", properties) if isinstance(properties, dict) else dict[str, Any]()
        self._properties = {name: weigh(each, schema) for name, each in named.items()}
        rest = {key: value for key, value in schema.items() if key not in ("properties", "$defs", "definitions")}
        self._rest = weigh(rest, schema)

    def estimate(self, args: Mapping[str, Any]) -> CheckWork:
        whole, pairs, reading = ArgumentsSize(), 0, 0
        for name, value in args.items():
            size = measure(value)
            weight = self._properties.get(name, Weight())
            pairs += (weight.parts + 1) * size.values
            reading += weight.reading(size)
            whole.values += size.values
            whole.texts += size.texts + 1
            whole.characters += size.characters + len(name)
            whole.long_integers += size.long_integers
            whole.has_longest = whole.has_longest or size.has_longest
        pairs += self._rest.parts * (whole.values + 1)
        total = pairs + reading + self._rest.reading(whole)
        too_much = total > MOST_WORK or whole.has_longest or whole.long_integers > _MOST_LONG_INTEGERS
        listable = pairs <= MOST_LISTED_WORK and pairs * whole.characters <= MOST_LISTED_CHARACTERS
        return CheckWork(total, too_much, listable)


def weigh(schema: Any, root: Mapping[str, Any]) -> Weight:
    """The weight of a schema with everything that it refers to in `root` put in its place."""
    parts = states = retrying = 0
    waiting: list[tuple[Any, tuple[str, ...]]] = [(schema, ())]
    while waiting and parts < _MOST_PARTS:
        node, inside = waiting.pop()
        if isinstance(node, list):
            parts += len(cast("list[Any]", node))
            waiting += [(each, inside) for each in cast("list[Any]", node)]
        elif isinstance(node, dict):
            parts += len(cast("dict[str, Any]", node))
            for key, value in cast("dict[str, Any]", node).items():
                for pattern in patterns_of(key, value):
                    states += count_states(pattern)
                    retrying += may_retry(pattern)
                states += _STATES_BY_KEYWORD.get(key, 0)
                if key == "$ref" and isinstance(value, str):
                    waiting += [(target, (*inside, value)) for target in _targets(value, inside, root)]
                else:
                    waiting.append((value, inside))
    return Weight(parts, states, retrying)


def measure(value: Any, most_values: int = MOST_WORK) -> ArgumentsSize:
    """How much a JSON value holds. Counting ends after `most_values`."""
    size = ArgumentsSize()
    waiting: list[Any] = [value]
    while waiting and size.values <= most_values:
        node = waiting.pop()
        size.values += 1
        if isinstance(node, str):
            size.texts += 1
            size.characters += len(node)
        elif isinstance(node, int):
            size.long_integers += node.bit_length() > 63
            size.has_longest = size.has_longest or node.bit_length() > LONGEST_INTEGER
        elif isinstance(node, list):
            waiting += cast("list[Any]", node)
        elif isinstance(node, dict):
            members = cast("dict[str, Any]", node)
            size.texts += len(members)
            size.characters += sum(map(len, members))
            waiting += members.values()
    return size


def patterns_of(keyword: str, value: Any) -> Iterable[str]:
    """The regular expressions that a keyword of a schema holds itself."""
    if keyword == "pattern" and isinstance(value, str):
        return (value,)
    if keyword == "patternProperties" and isinstance(value, dict):
        return cast("dict[str, Any]", value)
    return ()


def _targets(reference: str, inside: tuple[str, ...], root: Mapping[str, Any]) -> Iterator[Any]:
    """What is referred to; nothing where it is not in this schema, or contains itself."""
    if reference in inside or not reference.startswith("#/"):
        return
    node: Any = root
    for step in reference[2:].split("/"):
        name = step.replace("~1", "/").replace("~0", "~")
        if not isinstance(node, dict) or name not in node:
            return
        node = cast("dict[str, Any]", node)[name]
    yield node
