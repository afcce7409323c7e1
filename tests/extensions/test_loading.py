"""An extension is found by entry point, module or path; one that cannot be loaded is named with file and line."""

import sys
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from finclaw.agent.settings import ExtensionRef
from finclaw.diagnostics.event_stream import EventStream
from finclaw.errors import ConfigError, ExtensionError
from finclaw.extensions.loading import find
from finclaw.extensions.registrar import Registrar

Write = Callable[[str, str], Path]

PLAIN = "def register(api):\n    api.prompt.section(api.name, str(dict(api.settings)))\n"


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return write


@pytest.fixture
def importable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Path]:
    """A directory of installed packages, gone again with its modules afterwards."""
    place = tmp_path / "site"
    place.mkdir()
    monkeypatch.setattr(sys, "path", [str(place), *sys.path])
    before = set(sys.modules)
    yield place
    for name in set(sys.modules) - before:
        if name.startswith("shop"):
            del sys.modules[name]


def sections(*refs: ExtensionRef | str | Path) -> list[tuple[str, str]]:
    registrar = Registrar(EventStream())
    registrar.load(find([str(ref) if isinstance(ref, Path) else ref for ref in refs]))
    return [(section.title, section.content) for section in registrar.sections]


def complaint(*refs: str | Path) -> str:
    with pytest.raises((ConfigError, ExtensionError)) as caught:
        sections(*refs)
    return str(caught.value)


# ── by path ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("EX-01", "EX-08", "MW-08")
def test_files_are_loaded_in_order_and_named_after_themselves(write: Write) -> None:
    one, two = write("one.py", PLAIN), write("two.py", "name = 'deux'\n" + PLAIN)
    found = sections(two, ExtensionRef(str(one), {"a": 1}))
    assert found == [("deux", "{}"), ("one", "{'a': 1}")]


def test_two_files_of_one_name_are_two_modules(write: Write) -> None:
    one = write("a/same.py", "name = 'a'\n" + PLAIN)
    two = write("b/same.py", "name = 'b'\n" + PLAIN)
    assert sections(one, two) == [("a", "{}"), ("b", "{}")]
    assert "same" not in sys.modules


def test_a_directory_is_a_package_with_modules_of_its_own(write: Write) -> None:
    package = write("pack/__init__.py", "from .words import TITLE\ndef register(api): api.prompt.section(TITLE, '')\n")
    write("pack/words.py", "TITLE = 'from beside'\n")
    assert sections(package.parent) == [("from beside", "")]


@pytest.mark.spec("EX-10")
def test_an_edit_counts_at_the_next_start(write: Write) -> None:
    path = write("mine.py", "def register(api): api.prompt.section('a', '')\n")
    assert sections(path) == [("a", "")]
    write("mine.py", "def register(api): api.prompt.section('b', '')\n")  # same size, same second
    assert sections(path) == [("b", "")]
    assert not (path.parent / "__pycache__").exists()


def test_dataclasses_work_in_a_file(write: Write) -> None:
    path = write(
        "mine.py",
        "from __future__ import annotations\nfrom dataclasses import dataclass\nimport pickle\n"
        "@dataclass\nclass Point:\n    x: int\nassert pickle.loads(pickle.dumps(Point(1))) == Point(1)\n" + PLAIN,
    )
    assert sections(path) == [("mine", "{}")]


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("import os\n\nundefined\n", 3, "NameError: name 'undefined' is not defined"),
        ("def register(api):\n  x = (\n", 2, "SyntaxError: '(' was never closed"),
        ("import shop_that_is_not_there\n", 1, "ModuleNotFoundError: No module named 'shop_that_is_not_there'"),
        ("import sys\nsys.exit('bye')\n", 2, "SystemExit: bye"),
        ("def register(api):\n    a = 1\n    api.nothing.here\n", 3, "AttributeError: 'Api' object has no attribute"),
        ("def register(api):\n    help(api)\ndef help(api):\n    1 / 0\n", 4, "ZeroDivisionError"),
        ("def register(api):\n\n    api.pipeline.register('x', print)\n", 3, "there is no ring 'x'"),
        ("def register():\n    pass\n", None, "TypeError: register() takes 0 positional arguments but 1 was given"),
    ],
)
def test_a_failure_is_named_with_file_and_line(write: Write, text: str, line: int | None, said: str) -> None:
    path = write("broken.py", text)
    before = set(sys.modules)
    at = f"{path}, line {line}" if line else f"{path}"
    told = complaint(path)
    assert told.startswith(f"extension 'broken' ({at}): ")
    assert said in told
    if "def register" not in text:
        assert set(sys.modules) == before


def test_a_failure_inside_a_package_is_told_in_its_own_lines(write: Write) -> None:
    package = write("pack/__init__.py", "from . import deep\n" + PLAIN)
    write("pack/deep.py", "\n\nboom\n")
    told = complaint(package.parent)
    assert told == f"extension 'pack' ({package}, line 3): NameError: name 'boom' is not defined"


def test_a_path_that_is_not_there_comes_with_its_neighbours(write: Write, tmp_path: Path) -> None:
    write("mine.py", PLAIN)
    assert f"there is no file {tmp_path}/mien.py; did you mean mine.py?" in complaint(tmp_path / "mien.py")
    assert "beside it are mine.py" in complaint(tmp_path / "quite-another.py")
    assert "a path counts from the settings file's directory" in complaint("/no/such/place.py")
    (tmp_path / "empty").mkdir()
    assert "is a directory without an __init__.py" in complaint(tmp_path / "empty")


def test_a_file_without_register_is_refused(write: Write) -> None:
    path = write("mine.py", "x = 1\n")
    assert complaint(path) == f"agent.extensions: {path} has no function `register(api)`; add one, or name the object"


# ── by name ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_module_or_something_in_it(importable: Path, write: Write) -> None:
    write("site/shop/__init__.py", "")
    write(
        "site/shop/tills.py",
        PLAIN + "class Till:\n    name = 'till'\n    def register(self, api): register(api)\n"
        "till = Till()\ndef other(api): register(api)\n",
    )
    assert sections("shop.tills") == [("tills", "{}")]
    assert sections(ExtensionRef("shop.tills:till", {"b": 2})) == [("till", "{'b': 2}")]
    assert sections("shop.tills:Till") == [("till", "{}")]
    assert sections("shop.tills:other") == [("tills", "{}")]
    assert "shop.tills has no 'tilll'; did you mean till?" in complaint("shop.tills:tilll")


def test_an_installed_package_offers_by_entry_point(importable: Path, write: Write) -> None:
    write("site/shop_front.py", PLAIN)
    write("site/shop-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: shop\nVersion: 1.0\n")
    write(
        "site/shop-1.0.dist-info/entry_points.txt",
        "[finclaw.extensions]\nfront = shop_front\nback = shop_gone\nmemory = shop_front\n",
    )
    assert sections("front") == [("front", "{}")]
    told = complaint("frnot")
    assert told.startswith("agent.extensions: there is no extension 'frnot'; did you mean front?; installed are back, ")
    assert find(["memory"])[0].origin.endswith("finclaw/builtins/memory/__init__.py"), "nobody takes a name of ours"
    assert complaint("back").startswith(
        "extension 'back' (shop_gone): ModuleNotFoundError: No module named 'shop_gone'"
    )


@pytest.mark.parametrize("use", ["", "nothing_of_that_name", "no.such.module", "os.nope", "a b", "café au lait", ":x"])
def test_what_does_not_exist_is_a_matter_of_the_settings(use: str) -> None:
    told = complaint(use)
    assert f"there is no extension {use!r}" in told
    assert "give an entry point's name, a module, or a path such as ./my_extension.py" in told


def test_a_module_that_fails_is_its_authors_matter(importable: Path, write: Write) -> None:
    path = write("site/shop_broken.py", "x = 1\nboom\n")
    assert (
        complaint("shop_broken") == f"extension 'shop_broken' ({path}, line 2): NameError: name 'boom' is not defined"
    )
    syntax = write("site/shop_syntax.py", "x =\n")
    assert complaint("shop_syntax").startswith(
        f"extension 'shop_syntax' ({syntax}, line 1): SyntaxError: invalid syntax"
    )
    needs = write("site/shop_needs.py", "\nimport shop_missing\n")
    assert complaint("shop_needs").startswith(f"extension 'shop_needs' ({needs}, line 2): ModuleNotFoundError")
    assert "has no function `register(api)`" in complaint("json")
    package = write("site/shop_pack/__init__.py", "\nboom\n")
    assert complaint("shop_pack.inner").startswith(f"extension 'shop_pack.inner' ({package}, line 2): NameError: name ")


def test_nothing_is_registered_unless_all_can_be_found(write: Write) -> None:
    good, bad = write("good.py", PLAIN), write("bad.py", "boom\n")
    with pytest.raises(ExtensionError, match=r"extension 'bad'"):
        find([str(good), str(bad)])
