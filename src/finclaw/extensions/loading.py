"""Loading of an extension from a line in the settings: by entry point, by module, or by path; and of no other."""

import hashlib
import importlib
import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any, Final, cast

from msgspec import Struct, field

from finclaw.agent.settings import ExtensionRef, as_ref
from finclaw.errors import ConfigError, ExtensionError
from finclaw.extensions.settings import refuse_reference
from finclaw.kernel.extension import Extension, ExtensionApi
from finclaw.redaction import Follow
from finclaw.text import did_you_mean

GROUP: Final = "finclaw.extensions"  # the entry points that installed packages offer
OWN: Final = {
    "context-message": "finclaw.builtins.context_message",
    "mcp": "finclaw.builtins.mcp.extension",
    "memory": "finclaw.builtins.memory",
    "message-integrity": "finclaw.builtins.message_integrity",
    "message-window": "finclaw.builtins.message_window",
    "required-tools": "finclaw.builtins.required_tools",
    "skills": "finclaw.builtins.skills",
    "timing": "finclaw.builtins.timing",
    "tool-search": "finclaw.builtins.tool_search",
    "web": "finclaw.builtins.web.extension",
    "workspace": "finclaw.builtins.workspace",
}
"""Our own extensions, by name. They are no entry points: no installed package can take one of these names, and a start
need not read what every installed package offers (50 ms of `cold_cpu`)."""


class LocatedExtension(Struct, frozen=True):
    """An extension that was found, with its settings. `origin` is its file, `why` the reason for its place."""

    name: str
    register: Callable[[ExtensionApi], None]
    origin: str
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    why: str = ""
    follow: Follow = refuse_reference  # its settings' references to secrets


def as_builtin(extension: Extension, why: str) -> LocatedExtension:
    return LocatedExtension(extension.name, extension.register, origin_of(extension), why=why)


def find(refs: Iterable[ExtensionRef | str]) -> tuple[LocatedExtension, ...]:
    """All of them are imported, in order, before the first registers. Raises ConfigError or ExtensionError."""
    return tuple(_find(as_ref(ref)) for ref in refs)


def _find(ref: ExtensionRef) -> LocatedExtension:
    if ref.is_path:
        return _from_path(ref, Path(ref.use).expanduser())
    if ref.use in OWN:
        return make_found(ref, ref.use, importlib.import_module(OWN[ref.use]))
    from importlib.metadata import entry_points  # noqa: PLC0415  start-up: 50 ms of `cold_cpu`

    offered = {point.name: point for point in entry_points(group=GROUP)}
    if ref.use in offered:
        return make_found(ref, ref.use, _load_attributed(ref.use, offered[ref.use].module, offered[ref.use].load))
    module, _, attribute = ref.use.partition(":")
    if not _is_there(ref.use, module):
        names = sorted({*OWN, *offered})
        there = f"{did_you_mean(ref.use, names)}; installed are {', '.join(names)}"
        how = "give an entry point's name, a module, or a path such as ./my_extension.py"
        raise ConfigError(f"agent.extensions: there is no extension {ref.use!r}{there}; {how}")
    loaded = _load_attributed(ref.use, module, lambda: importlib.import_module(module))
    return make_found(ref, module.rpartition(".")[2], _attribute(ref.use, loaded, attribute))


def _is_there(use: str, module: str) -> bool:
    if not all(part.isidentifier() for part in module.split(".")):
        return False
    try:
        importlib.invalidate_caches()  # it may have been written a moment ago
        return importlib.util.find_spec(module) is not None
    except (Exception, SystemExit) as error:  # looking for a module runs the package it is in
        if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
            return False  # the very module that was named, and not one that its package needs
        raise attribute_error(use, _file(module, error), error) from error


def _load_attributed(use: str, module: str, load: Callable[[], Any]) -> Any:
    try:
        return load()
    except (Exception, SystemExit) as error:  # importing an extension is running a stranger's code
        raise attribute_error(use, _file(module, error), error) from error


def _file(module: str, error: BaseException) -> str:
    """Where a module lies that could not be imported: the trace knows, or the error itself."""
    if isinstance(error, SyntaxError) and error.filename:
        return error.filename
    parts = module.split(".")
    packages = [os.path.join(os.sep, *parts[:count], "__init__.py") for count in range(1, len(parts) + 1)]
    endings = (os.path.join(os.sep, *parts) + ".py", *packages)
    frames = reversed(traceback.extract_tb(error.__traceback__))
    return next((each.filename for each in frames if each.filename.endswith(endings)), module)


def _attribute(use: str, module: ModuleType, attribute: str) -> object:
    thing: object = module
    for name in filter(None, attribute.split(".")):
        if not hasattr(thing, name):
            near = did_you_mean(name, [each for each in dir(thing) if not each.startswith("_")])
            raise ConfigError(f"agent.extensions: {use!r}: {module.__name__} has no {attribute!r}{near}")
        thing = getattr(thing, name)
    return thing


def _from_path(ref: ExtensionRef, path: Path) -> LocatedExtension:
    locations = [str(path)] if path.is_dir() else None
    file = path if locations is None else path / "__init__.py"
    if not file.is_file():
        raise ConfigError(_no_file(ref.use, path))
    # A name of its own: two files may be called alike, and none may pose as somebody else's module.
    digest = hashlib.blake2b(os.fsencode(file.absolute()), digest_size=6).hexdigest()
    module = f"_finclaw_extension_{digest}"
    loader = _FreshLoader(module, str(file))
    spec = importlib.util.spec_from_file_location(module, file, loader=loader, submodule_search_locations=locations)
    try:
        return make_found(ref, path.stem, _run(cast("ModuleSpec", spec)), str(file))
    except ConfigError:
        raise
    except (Exception, SystemExit) as error:  # importing an extension is running a stranger's code
        raise attribute_error(path.stem, str(file), error) from error


def _run(spec: ModuleSpec) -> ModuleType:
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses, pickle and relative imports look for it there
    try:
        cast("SourceFileLoader", spec.loader).exec_module(module)
    except BaseException:
        for name in [each for each in sys.modules if each == spec.name or each.startswith(spec.name + ".")]:
            del sys.modules[name]
        raise
    return module


class _FreshLoader(SourceFileLoader):
    """Reads the source each time: an edit within the same second must count, and nothing is written beside it."""

    def get_code(self, fullname: str) -> Any:
        return self.source_to_code(self.get_data(self.path), self.path)


def _no_file(use: str, path: Path) -> str:
    if path.is_dir():
        return f"agent.extensions: {use} is a directory without an __init__.py; name a file in it, or add one"
    there = sorted(each.name for each in path.parent.glob("*.py"))
    hint = did_you_mean(path.name, there)
    if there and not hint:
        hint = f"; beside it are {', '.join(there[:8])}"
    return f"agent.extensions: there is no file {use}{hint}; a path counts from the settings file's directory"


def make_found(ref: ExtensionRef, name: str, thing: Any, origin: str = "") -> LocatedExtension:
    """A module or object with `register`, a class of such objects, or the function itself."""
    if isinstance(thing, type) and hasattr(thing, "register"):
        thing = _load_attributed(ref.use, thing.__module__, thing)
    register: Any = getattr(thing, "register", None)
    if inspect.isroutine(thing):
        register = register or thing
    if not callable(register):
        raise ConfigError(f"agent.extensions: {ref.use} has no function `register(api)`; add one, or name the object")
    own_name = getattr(thing, "name", None)
    if isinstance(own_name, str):
        name = own_name
    follow = getattr(ref, "follow", None) or refuse_reference
    origin = origin or origin_of(thing) or ref.use
    return LocatedExtension(name, cast("Any", register), origin, ref.settings, follow=follow)


def attribute_error(name: str, origin: str, error: BaseException) -> ExtensionError:
    """`extension 'x' (x.py, line 12): NameError: …`. `origin` is its file, as far as it is known."""
    where = ""
    if origin:
        line = _line(origin, error)
        where = f" ({origin}, line {line})" if line else f" ({origin})"
    says = str(error)
    if not isinstance(error, ExtensionError):  # our own errors are written for a person; others need their kind
        says = f"{type(error).__name__}: {says}"
    return ExtensionError(f"extension {name!r}{where}: {says}")


def origin_of(thing: object) -> str:
    """The file in which an object with `register` was written, if it can be told."""
    register = getattr(thing, "register", thing)
    code = getattr(getattr(register, "__func__", register), "__code__", None)
    return getattr(code, "co_filename", "")


def _line(origin: str, error: BaseException) -> int | None:
    if isinstance(error, SyntaxError) and error.filename == origin:
        return error.lineno
    root = origin
    if Path(origin).name == "__init__.py":  # all modules of a package are the extension's own
        root = str(Path(origin).parent) + os.sep
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(root)]
    return lines[-1] if lines else None
