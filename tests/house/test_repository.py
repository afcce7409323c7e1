"""Rules of the house that no linter knows."""

import ast
import importlib
import re
import subprocess
import tomllib
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from tests.house import sizes

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "finclaw"
LOCKS = ("run", "test", "check")
ALL_LOCKS = (*LOCKS, "opinion")
MOST_PUBLIC_NAMES = 40


# ── nothing of one machine ───────────────────────────────────────────────────────────────────────

PACKAGE_INDEX = re.compile(r"https?://[\w.-]*(?:pypi|pythonhosted|npmjs|yarnpkg|debian)[\w.-]*")
# Only at the start of a path, so that an address like example.com/home/ or one of our own folders is no match.
MACHINE_PATH = re.compile(r"(?<![\w.$}~-])/(?:work|root|home)/")


def text_files() -> Iterator[tuple[Path, str]]:
    """What git tracks or would track; a file that is not UTF-8 is not text."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    for name in filter(None, listed.split("\0")):
        path = ROOT / name
        if not path.is_file():
            continue  # deleted but not yet committed
        try:
            yield path.relative_to(ROOT), path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue


@pytest.mark.parametrize(
    ("pattern", "advice"),
    [
        pytest.param(PACKAGE_INDEX, "name the package, not where one machine fetches it", id="package index"),
        pytest.param(MACHINE_PATH, "say it relative to the repository, or let the caller pass it", id="machine path"),
    ],
)
def test_no_file_names_a_machine(pattern: re.Pattern[str], advice: str) -> None:
    found = [
        f"{path}:{number}: {match.group()}"
        for path, text in text_files()
        for number, line in enumerate(text.splitlines(), 1)
        if (match := pattern.search(line))
    ]
    assert not found, advice + ":\n" + "\n".join(found)


# ── no package of a stranger ─────────────────────────────────────────────────────────────────────

PIP_INSTALL = re.compile(r"""pip3? install((?:[ ]+(?:-\S+|['"]?[\w.\[\]<>=~!,-]+['"]?))+)""")
OUR_EXTRAS = re.compile(r"\bfinclaw\[")


def read_declared_packages() -> set[str]:
    """Every package that pyproject.toml names as a dependency; our own distribution is on no index."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    return {normalize_name(line) for group in groups for line in group}


def normalize_name(requirement: str) -> str:
    name = re.match(r"[\w.-]+", requirement.strip("'\""))
    return name.group().lower().replace("_", "-") if name else requirement


def find_foreign_packages(text: str, declared: set[str]) -> list[str]:
    """What a reader is told to install that neither this checkout holds nor pyproject.toml names."""
    asked = (word for match in PIP_INSTALL.finditer(text) for word in match[1].split() if not word.startswith("-"))
    foreign = [word for word in asked if not word.strip("'\"").startswith(".") and normalize_name(word) not in declared]
    return foreign + OUR_EXTRAS.findall(text)


def test_no_text_tells_anybody_to_install_a_package_that_is_not_ours() -> None:
    """User trial H1: `finclaw` on the public index is somebody else's, and would overwrite this program."""
    declared = read_declared_packages()
    told = [path for path in text_files() if path[0].suffix != ".lock" and path[0] != Path(__file__).relative_to(ROOT)]
    found = [f"{path}: {name}" for path, text in told for name in find_foreign_packages(text, declared)]
    assert not found, "name a dependency from pyproject.toml, or `.` for this checkout:\n" + "\n".join(found)


@pytest.mark.parametrize(
    "text",
    [
        'installed (`pip install "finclaw[chat]"`)',
        "run: pip install finclaw",
        "pip install -U finclaw-gateway",
        "python -m pip install 'finclaw-gateway[mcp]'",
        "pip3 install --no-deps finclow",
        "the extra `finclaw[mcp]`",
    ],
)
def test_a_strangers_package_is_noticed(text: str) -> None:
    assert find_foreign_packages(text, read_declared_packages())


# ── locks ────────────────────────────────────────────────────────────────────────────────────────


def requirements(lock: str) -> list[str]:
    """One string for each requirement, its hashes included."""
    text = (ROOT / "requirements" / f"{lock}.lock").read_text().replace("\\\n", " ")
    return [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]


@pytest.mark.parametrize("lock", ALL_LOCKS)
def test_a_lock_carries_no_address(lock: str) -> None:
    text = (ROOT / "requirements" / f"{lock}.lock").read_text()
    assert not re.findall(r"\w+://\S+|^-.*", text, re.MULTILINE), "write it again with `make lock`"


@pytest.mark.parametrize("lock", ALL_LOCKS)
def test_every_locked_package_has_a_version_and_hashes(lock: str) -> None:
    bare = [line for line in requirements(lock) if not re.match(r"[a-z0-9-]+==\S+.*--hash=sha256:[0-9a-f]{64}", line)]
    assert requirements(lock)
    assert not bare, "write it again with `make lock`"


def test_the_locks_agree() -> None:
    """On versions and hashes; for whom a package is (the marker) depends on who else wants it."""
    run, test, check = ({re.sub(r" ;[^-]*(?=--hash)", " ", line) for line in requirements(lock)} for lock in LOCKS)
    run, test, check = ({" ".join(line.split()) for line in lock} for lock in (run, test, check))
    assert run < test < check, "a version differs between two locks: write all of them again with `make lock`"


# ── the public face ──────────────────────────────────────────────────────────────────────────────


def bound_names(body: list[ast.stmt]) -> Iterator[str]:
    """The names a module defines or takes over from finclaw, those under `if TYPE_CHECKING` included."""
    for node in body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name
            case ast.Assign():
                yield from (target.id for target in node.targets if isinstance(target, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case ast.ImportFrom() if (node.module or "").split(".")[0] == "finclaw" or node.level:
                yield from (alias.asname or alias.name for alias in node.names)
            case ast.If():
                yield from bound_names(node.body + node.orelse)
            case _:
                pass


def test_all_lists_the_public_names() -> None:
    finclaw = importlib.import_module("finclaw")
    listed = [name for name in finclaw.__all__ if name != "__version__"]
    public = {name for name in bound_names(ast.parse((SOURCE / "__init__.py").read_text()).body) if name[0] != "_"}
    assert len(listed) == len(set(listed)), "a name is listed twice in finclaw.__all__"
    assert set(listed) == public, "finclaw.__all__ and the names in finclaw/__init__.py differ"
    assert [name for name in listed if not hasattr(finclaw, name)] == [], "listed in finclaw.__all__ but not there"
    assert len(listed) <= MOST_PUBLIC_NAMES, "a public name is a promise: find one that is not needed"


def test_modules_import_one_way() -> None:
    """A reader never needs two modules at once to understand either of them."""
    names = {module.dotted for module in sizes.modules()}
    graph = {module.dotted: (sizes.find_top_imports(module) & names) - {module.dotted} for module in sizes.modules()}
    packages = {module.dotted for module in sizes.modules() if module.is_package}
    for name, targets in graph.items():
        graph[name] = {target for target in targets if not (target in packages and name.startswith(f"{target}."))}
    try:
        tuple(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail("these modules import each other: " + " → ".join(error.args[1]))


# ── documents that must stay true ────────────────────────────────────────────────────────────────


def test_the_tour_names_real_files() -> None:
    tour = ROOT / "docs" / "tour.md"
    assert tour.is_file(), "docs/tour.md is missing: it is the way into the code for a new reader"
    # `src/finclaw/app.py`, `src/finclaw/app.py:12`, `docs/tour.md#start`, `src/finclaw/pipeline/*.py`
    named = re.findall(r"`((?:src|docs)/[^`\s:#]*)[^`\s]*`", tour.read_text(encoding="utf-8"))
    missing = [path for path in named if not any(ROOT.glob(path.rstrip("/")))]
    assert named, "docs/tour.md names no file"
    assert not missing, "docs/tour.md names files that are not there"


def drawn_tree(docstring: str) -> dict[str, str | None]:
    """Child to parent, read off the drawing: the parent is the nearest line above that starts further left."""
    tree: dict[str, str | None] = {}
    above: list[tuple[int, str]] = []
    for line in docstring.splitlines():
        drawn = re.match(r"(?P<indent>[ │]*(?:[├└]── )?)(?P<name>[A-Z]\w+)(?:$|\s{2,})", line)
        if drawn is None or not (drawn["indent"] or tree):
            continue
        column = len(drawn["indent"])
        above = [(left, name) for left, name in above if left < column]
        tree[drawn["name"]] = above[-1][1] if above else None
        above.append((column, drawn["name"]))
    return tree


def test_the_drawn_error_tree_is_the_real_one() -> None:
    errors = importlib.import_module("finclaw.errors")
    real: dict[str, str | None] = {}
    for name, thing in vars(errors).items():
        if isinstance(thing, type) and thing.__module__ == errors.__name__:
            parent = thing.__bases__[0]
            real[name] = parent.__name__ if parent.__module__ == errors.__name__ else None
    assert drawn_tree(errors.__doc__ or "") == real


def test_our_stub_of_apsw_names_only_what_apsw_has() -> None:
    apsw = importlib.import_module("apsw")
    stub = ast.parse((ROOT / "typings" / "apsw" / "__init__.pyi").read_text())
    for drawn in (node for node in stub.body if isinstance(node, ast.ClassDef)):
        real = getattr(apsw, drawn.name)
        methods = [node.name for node in drawn.body if isinstance(node, ast.FunctionDef)]
        assert [name for name in methods if not hasattr(real, name)] == [], f"not in apsw.{drawn.name}"
