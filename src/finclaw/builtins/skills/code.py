"""Python tools that a skill brings along, loaded only where the operator says so and only as they were added."""

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from finclaw.builtins.skills.adding import record_of
from finclaw.builtins.skills.folder import CODE_FILE, Contents, read_folder
from finclaw.builtins.skills.skill import BadSkill, Skill
from finclaw.errors import ExtensionError
from finclaw.kernel.extension import ExtensionApi
from finclaw.kernel.port import Tool


def load_tools(directory: Path, skills: Mapping[str, Skill], api: ExtensionApi) -> Mapping[str, str]:
    """Register them; gives the skill of each by the tool's name. Raises ExtensionError, which stops the start."""
    owned = dict[str, str]()
    for name in skills:
        contents = _trusted_contents(directory / name, api)
        for tool in () if contents is None else _tools(name, contents):
            api.tools.register(tool)
            owned[tool.spec.name] = name
        if contents is not None:
            api.logger.info("the tools of the skill %s are loaded, sha256 %s", name, contents.digest)
    return owned


def _trusted_contents(folder: Path, api: ExtensionApi) -> Contents | None:
    """What is run is what was read and compared, and not what lies on the disk a moment later."""
    if not folder.is_dir():  # a text
        return None
    try:
        contents, record = read_folder(folder), record_of(folder)
    except (OSError, BadSkill) as error:
        api.logger.warning("the tools of the skill %s are not loaded: %s", folder.name, error)
        return None
    if not contents.has_code:
        return None
    if record is None or record.sha256 != contents.digest:
        why = "it was not added with `finclaw skills add`" if record is None else "it was changed since it was added"
        again = "look at it, and add it again"
        api.logger.warning("the tools of the skill %s are not loaded: %s; %s", folder.name, why, again)
        return None
    return contents


def _tools(skill: str, contents: Contents) -> Iterable[Tool]:
    module = ModuleType(f"_finclaw_skill_{contents.digest[:16]}")
    module.__file__ = f"{skill}/{CODE_FILE}"
    sys.modules[module.__name__] = module  # annotations are looked up there
    try:
        exec(compile(contents.files[CODE_FILE], module.__file__, "exec"), module.__dict__)
    except Exception as error:  # a stranger's code, which must be named when it fails
        del sys.modules[module.__name__]
        raise ExtensionError(f"{module.__file__} cannot be run: {type(error).__name__}: {error}") from error
    tools: Any = getattr(module, "TOOLS", None)
    if not isinstance(tools, list | tuple):
        raise ExtensionError(f"{module.__file__} has no list TOOLS; put its tools there")
    for tool in cast("Iterable[Tool]", tools):
        if not tool.spec.name.startswith(f"{skill}__"):
            raise ExtensionError(f"{module.__file__}: call the tool {tool.spec.name!r} {skill}__… as its skill")
        yield tool
