"""Measurements of the source tree for `test_sizes.py`. `python -m tests.house.sizes` prints today's exceptions."""

import ast
import re
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
SOURCE: Final = ROOT / "src" / "finclaw"

SHORTEST_ALONE: Final = 40
REASON: Final = re.compile(r"# noqa: PLC0415 +.*(start|cold|\bms\b|optional|extra|import)", re.IGNORECASE)
"""Beside an import inside a function: that it is optional, or which start-up figure fails without it."""


@dataclass(frozen=True)
class Module:
    path: Path

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @property
    def shown(self) -> str:
        return str(self.path.relative_to(ROOT))

    @property
    def dotted(self) -> str:
        parts = self.path.relative_to(SOURCE.parent).with_suffix("").parts
        return ".".join(parts).removesuffix(".__init__")

    @property
    def lines(self) -> int:
        return self.text.count("\n")

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"

    @property
    def classes(self) -> list[ast.ClassDef]:
        return [node for node in self.tree.body if isinstance(node, ast.ClassDef)]


@cache
def modules() -> tuple[Module, ...]:
    return tuple(Module(path) for path in sorted(SOURCE.rglob("*.py")))


# ── what breaks a cap, each by a name that an exception can be made for ─────────────────────────────────────


@cache
def importers() -> defaultdict[str, set[Module]]:
    """Each imported name with the modules that import it."""
    found: defaultdict[str, set[Module]] = defaultdict(set)
    for module in modules():
        for target in find_imports(module):
            found[target].add(module)
    return found


def crumbs() -> set[str]:
    """Modules so short that a reader opens two files for one idea."""
    return {
        module.shown
        for module in modules()
        if not module.is_package
        and 5 < module.lines < SHORTEST_ALONE
        and len(importers()[module.dotted]) == 1
        and next(iter(importers()[module.dotted])).path.parent == module.path.parent
    }


def find_imports(module: Module) -> set[str]:
    return _import_targets(ast.walk(module.tree))


def find_top_imports(module: Module) -> set[str]:
    """Return what the module imports when it is imported itself."""
    return _import_targets(module.tree.body)


def _import_targets(nodes: Iterable[ast.AST]) -> set[str]:
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("finclaw"):
            found |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


def doubled_classes() -> set[str]:
    names = Counter(node.name for each in modules() for node in each.classes if not node.name.startswith("_"))
    return {name for name, number in names.items() if number > 1}


def inner_imports() -> set[str]:
    """Imports inside functions of what is always installed, without the reason beside them."""
    optional = _optional_packages()
    return {
        f"{each.shown}: {target}"
        for each in modules()
        for target, line in _inner(each)
        if target.split(".")[0] not in optional and not REASON.search(line)
    }


def _inner(module: Module) -> Iterator[tuple[str, str]]:
    if not re.search(r"^\s+(from|import) ", module.text, re.MULTILINE):
        return
    lines = module.text.splitlines()
    for function in ast.walk(module.tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for node in ast.walk(function):
            if isinstance(node, ast.ImportFrom):
                yield node.module or "", lines[node.lineno - 1]
            elif isinstance(node, ast.Import):
                yield node.names[0].name, lines[node.lineno - 1]


def _optional_packages() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    groups = project["optional-dependencies"].values()
    return {re.split(r"[^\w-]", line)[0].replace("-", "_") for group in groups for line in group}


TAKES_FROM_A_TEST: Final = re.compile(r"^\s*from tests\b(?:.*|.* import \([^)]*)\btest_\w+", re.MULTILINE)


def count_test_imports() -> set[str]:
    """Tests that take helpers from another test module, in which nobody looks for them."""
    found: set[str] = set()
    for path in sorted((ROOT / "tests").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if not TAKES_FROM_A_TEST.search(text):  # to parse all tests takes seconds
            continue
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("tests."):
                continue
            targets = {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
            found |= {f"{path.relative_to(ROOT)}: {each}" for each in targets if re.search(r"\.test_\w+$", each)}
    return found


CAPS: Final = {
    "CRUMBS": crumbs,
    "DOUBLED_CLASSES": doubled_classes,
    "INNER_IMPORTS": inner_imports,
    "SHARED_TEST_MODULES": count_test_imports,
}


def main() -> None:
    sys.stdout.write(
        '"""Exceptions from the caps of `test_sizes.py`. The lists only shrink: `python -m tests.house.sizes`."""\n\n'
    )
    for name, measure in CAPS.items():
        listed = "".join(f'\n        "{each}",' for each in sorted(measure()))
        value = f"frozenset(\n    {{{listed}\n    }}\n)" if listed else "frozenset()"
        sys.stdout.write(f"{name}: frozenset[str] = {value}\n")


if __name__ == "__main__":
    main()
