"""The extensions that the settings list: can they be loaded, who else can change them, and what do they say?"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import cast

from finclaw.agent.settings import ExtensionRef
from finclaw.builtin_extensions import load_registrar
from finclaw.cli.doctor.finding import Finding, Level, bad, ok, warn
from finclaw.cli.loading_problems import problems_of_prompt
from finclaw.config.schema import Settings
from finclaw.errors import FinclawError
from finclaw.extensions.registrar import Registrar
from finclaw.extensions.registration import DoctorCheck
from finclaw.kernel import extension as kernel

_LEVELS: dict[str, Level] = {"ok": "ok", "warning": "warn", "error": "bad"}


def checks(settings: Settings | None) -> Iterator[Finding]:
    """Looking at the files comes first: what it finds may be the reason not to run them."""
    if settings is None:
        return
    for given in settings.agent.extensions:
        ref = ExtensionRef(given) if isinstance(given, str) else given
        if ref.is_path:
            yield from _file(Path(ref.use).expanduser())
    try:
        registrar = load_registrar(settings)
    except FinclawError as error:
        yield bad("extensions", str(error))
        return
    yield from _summary(settings, registrar)
    yield from (bad("prompt", problem) for problem in problems_of_prompt(settings, registrar))
    for each in registrar.loaded:
        yield from (_run_check(check) for check in each.doctor)


def _file(path: Path) -> Iterator[Finding]:
    """Whoever can write it can have the gateway run anything."""
    for each in (path, path / "__init__.py"):
        try:
            found = each.stat()
        except OSError:
            continue  # that it is not there is told by loading it
        if found.st_uid not in (os.geteuid(), 0):
            yield warn("extensions", f"{each} belongs to another user", "make a copy of your own, and list that")
        elif found.st_mode & (stat.S_IWOTH | stat.S_IWGRP):
            yield warn("extensions", f"other users can change {each}", f"run: chmod go-w {each}")


def _summary(settings: Settings, registrar: Registrar) -> Iterator[Finding]:
    listed = len(settings.agent.extensions)
    names = ", ".join(each.name for each in registrar.loaded[-listed:]) if listed else "none listed"
    names += f"; on by default: {', '.join(default)}" if (default := settings.agent.default_extensions) else ""
    yield ok("extensions", f"{names}; {len(registrar.loaded) - listed} built in")


def _run_check(check: DoctorCheck) -> Finding:
    try:
        said = cast("object", check.look())
    except Exception as error:  # noqa: BLE001  a look of a stranger; that it failed is what it found
        return bad(check.extension, f"{check.name}: the check itself failed ({type(error).__name__}: {error})")
    if not isinstance(said, kernel.Finding):
        return bad(check.extension, f"{check.name}: the check gave {type(said).__name__}, not a Finding")
    level = _LEVELS.get(said.result, "bad")
    return Finding(check.extension, level, f"{check.name}: {said.text}", said.advice)
