"""Every regular expression of the package takes linear time, whatever text is made to fit it almost.

The texts are built from each pattern: what its parts match, repeated, alone and behind what stands before them.
"""

import ast
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Final, cast

import msgspec
import pytest

import finclaw

ROOT: Final = Path(finclaw.__file__).parent
LENGTHS: Final = (50, 400, 3_200)
SHORT: Final = 0.000_25
"""CPU time below which a measurement is noise."""
END: Final = "\0\n\0"
"""What fits nothing, on the line and below it."""
FACTOR: Final = 4
MOST_GROWTH: Final = 9
"""A text that is four times as long takes four times as long, or sixteen times where the cost is quadratic."""
UNITS: Final[tuple[str, ...]] = (" ", "\n", "a", "A", "1", ".", "“ ", ' "', "<", "[", "?", "\x9d", "- ")
ANCHORED: Final = frozenset({"match", "fullmatch"})
METHODS: Final = ANCHORED | {"compile", "search", "sub", "subn", "split", "findall", "finditer"}
SAMPLES: Final = {"DIGIT": "1", "NOT_DIGIT": "a", "SPACE": " ", "NOT_SPACE": "a", "WORD": "a", "NOT_WORD": "-"}

BOUNDED: Final = {
    "finclaw.demo.assistant.": 480,  # `tokens.py` looks at no more of a text
    "finclaw.redaction.clean:66": 0,  # `clean` has ended all titles but the first
    "finclaw.testing.": 0,  # no part of a gateway
}
"""Patterns that never see a longer text."""
Uses = dict[str, set[str]]
Read = Callable[[Any], object]


class Found(msgspec.Struct, frozen=True):
    where: str
    pattern: re.Pattern[Any]
    is_anchored: bool

    def read(self, text: str) -> None:
        data: Any = text.encode("latin-1", "replace") if isinstance(self.pattern.pattern, bytes) else text
        if self.is_anchored:
            self.pattern.match(data)
            self.pattern.fullmatch(data)
        else:
            self.pattern.sub(data[:0], data)


def find_patterns() -> tuple[Found, ...]:
    sources = {path: path.read_text(encoding="utf-8") for path in sorted(ROOT.rglob("*.py"))}
    trees = {path: ast.parse(text) for path, text in sources.items() if "import re\n" in text}
    uses = {path: _uses(tree) for path, tree in trees.items()}
    found: dict[tuple[Any, int, bool], Found] = {}
    for path, tree in trees.items():
        name = ".".join(("finclaw", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")
        module = import_module(name)
        written = list(_written(module, tree, uses[path], uses.values()))
        held = [Found(f"{name} {key}", each, False) for key, value in vars(module).items() for each in _held(value)]
        known = {(each.pattern.pattern, each.pattern.flags) for each in written}
        for each in (*written, *(each for each in held if (each.pattern.pattern, each.pattern.flags) not in known)):
            found.setdefault((each.pattern.pattern, each.pattern.flags, each.is_anchored), each)
    return tuple(found.values())


def _written(module: ModuleType, tree: ast.AST, own: Uses, others: Iterable[Uses]) -> Iterator[Found]:
    """The calls of `re` in a module whose pattern is known without running it."""
    names = {id(node.value): _target(node) for node in ast.walk(tree) if isinstance(node, ast.Assign | ast.AnnAssign)}
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(ast.Name("re"), method), args=[first, *_]) if method in METHODS:
                pass
            case _:
                continue
        try:
            given = [_evaluate(each, module) for each in (first, *(node.args[1:2] if method == "compile" else ()))]
            given += [_evaluate(each.value, module) for each in node.keywords if each.arg == "flags"]
        except NameError:
            continue  # it depends on an argument
        pattern = re.compile(*given)
        name = names.get(id(node), "")
        used = {method}
        if method == "compile":  # a private constant is used in its own module
            used = set[str]().union(*(each.get(name, ()) for each in ((own,) if name.startswith("_") else others)))
        yield Found(f"{module.__name__}:{node.lineno}", pattern, bool(used) and used <= ANCHORED)


def _target(node: ast.Assign | ast.AnnAssign) -> str:
    target = node.targets[0] if isinstance(node, ast.Assign) else node.target
    return target.id if isinstance(target, ast.Name) else ""


def _evaluate(node: ast.expr, module: ModuleType) -> Any:
    return eval(compile(ast.Expression(node), module.__name__, "eval"), vars(module))


def _uses(tree: ast.AST) -> Uses:
    """The methods that are called of each name; what else is done with it is a method nobody knows."""
    used: Uses = {}
    for node in ast.walk(tree):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Load):
                used.setdefault(child.id, set()).add(node.attr if isinstance(node, ast.Attribute) else "?")
    return used


def _held(value: Any, depth: int = 4) -> Iterator[re.Pattern[Any]]:
    """The patterns in a module's value: for those that are built from others when it is loaded."""
    if isinstance(value, re.Pattern):
        yield value
    elif depth and isinstance(value, tuple | list | frozenset | set):
        for each in cast("Sequence[Any]", value):
            yield from _held(each, depth - 1)
    elif depth and isinstance(value, dict):
        yield from _held(list(cast("dict[Any, Any]", value).values()), depth)
    elif depth and isinstance(value, msgspec.Struct):
        yield from _held([getattr(value, name) for name in value.__struct_fields__], depth)


# ── texts that almost fit ───────────────────────────────────────────────────────────────────────────────────────


def attacks(pattern: re.Pattern[Any]) -> Iterator[tuple[str, str]]:
    """What stands first, and what is repeated behind it."""
    tree = cast("Any", import_module("re._parser")).parse(pattern.pattern, pattern.flags)
    units = dict[str, None]((unit, None) for unit in UNITS)
    parts = _samples(tree, units)
    chosen = [each for each in units if each][len(UNITS) :]
    yield from (("", unit) for unit in UNITS)
    for unit in chosen[:: max(1, len(chosen) // 12)]:
        yield "", unit
        yield "", unit + " "
    for number, part in list(enumerate(parts))[:: max(1, len(parts) // 6)]:
        if part:
            yield "".join(parts[:number]), part


def _samples(tree: Any, units: dict[str, None]) -> list[str]:
    """A text for each part of a pattern. All texts of inner parts are added to the units."""
    parts: list[str] = []
    for operation, value in tree:
        match str(operation):
            case "LITERAL":
                text = chr(value)
            case "IN":
                text = _sample_class(value, units)
            case "BRANCH":
                text = max(("".join(_samples(each, units)) for each in value[1]), key=len)
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                text = "".join(_samples(value[2], units)) * max(1, min(int(value[0]), 20))
            case "SUBPATTERN" | "ASSERT" | "ASSERT_NOT":
                text = "".join(_samples(value[-1], units))
            case "ATOMIC_GROUP":
                text = "".join(_samples(value, units))
            case "ANY" | "NOT_LITERAL":
                text = "a"
            case _:
                text = ""
        parts.append(text)
    units["".join(parts)] = None
    for number in range(len(parts)):
        units.update(dict.fromkeys(("".join(parts[:number]), parts[number], "".join(parts[number : number + 2]))))
    return parts


def _sample_class(items: Any, units: dict[str, None]) -> str:
    texts = [_sample_item(str(operation), value) for operation, value in items]
    if str(items[0][0]) == "NEGATE":
        return next((each for each in "a (-1\n" if each not in texts), "")
    units.update((text, None) for text in texts[:3])
    return texts[0]


def _sample_item(operation: str, value: Any) -> str:
    if operation == "CATEGORY":
        return SAMPLES.get(str(value).removeprefix("CATEGORY_"), "a")
    return "" if operation == "NEGATE" else chr(value[0] if operation == "RANGE" else value)


def cost(read: Read, text: str, tries: int = 1) -> float:
    taken: list[float] = []
    for _ in range(tries):
        began = time.process_time()
        read(text)
        taken.append(time.process_time() - began)
    return min(taken)


def find_slow(found: Found) -> str | None:
    bound = next((bound for start, bound in BOUNDED.items() if found.where.startswith(start)), None)
    for first, unit in attacks(found.pattern):
        if bound is not None:
            text = (first + unit * bound)[:bound]
            if cost(found.read, text) > 0.02 and cost(found.read, text, 3) > 0.02:
                return f"{found.where}: {first[:40]!r} and {unit[:40]!r}, longer than 20 ms"
            continue
        if cost(found.read, (first + unit * 24)[-24:] + END) > 0.02:
            return f"{found.where}: {first[:40]!r} and {unit[:40]!r}, exponential"
        for length in LENGTHS:
            text, longer = (first + unit * (size // len(unit) + 1) + END for size in (length, FACTOR * length))
            if cost(found.read, text) < SHORT:
                continue
            growth = [cost(found.read, longer) / cost(found.read, text, 2)]
            if growth[0] > MOST_GROWTH:
                growth += [cost(found.read, longer) / cost(found.read, text, 2) for _ in range(2)]
            if min(growth) > MOST_GROWTH:
                return f"{found.where}: {first[:40]!r} and {unit[:40]!r}, {min(growth):.0f} times"
    return None


def test_every_pattern_takes_linear_time() -> None:
    patterns = find_patterns()
    assert len(patterns) > 320
    assert [slow for each in patterns if (slow := find_slow(each))] == []


@pytest.mark.parametrize(
    "pattern", ["“([^”]*)”", r"\s+$", r"(?:a+)+b", r"\s*,\s*y", r"[.!?]+(?=\s)", r"(?:^|\n)\|[^\n]*(?:\n\|[^\n]*)*\Z"]
)
def test_a_pattern_that_is_not_linear_is_found(pattern: str) -> None:
    assert find_slow(Found("here", re.compile(pattern), False)) is not None
