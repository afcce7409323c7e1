"""The checks of the extensions that the settings list: loading, file permissions, their own checks."""

import asyncio
import os
import stat
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import cast

from msgspec.structs import replace

from finclaw.agent.settings import AgentSettings, as_ref
from finclaw.agent.window.size import Capacity, Thresholds
from finclaw.agent.window.tokens import Estimator
from finclaw.cli.doctor import DoctorFinding, Level, bad, ok, warn
from finclaw.clock import SystemClock
from finclaw.composition.agent import agent_prompt
from finclaw.composition.channels import problems_of_channels
from finclaw.composition.extensions import load_registrar
from finclaw.config.routes import ModelRoutes
from finclaw.config.schema import Settings
from finclaw.errors import FinclawError
from finclaw.extensions.loading import find
from finclaw.extensions.registrar import Registrar
from finclaw.extensions.registration import DoctorCheck
from finclaw.kernel import extension as kernel
from finclaw.kernel.chunk import Model
from finclaw.policy.rule import check_rules

_LEVELS: dict[str, Level] = {"ok": "ok", "warning": "warn", "error": "bad"}


def checks(settings: Settings) -> Iterator[DoctorFinding]:
    """Looking at the files comes first: what it finds may be the reason not to run them."""
    for ref in map(as_ref, settings.agent.extensions):
        if ref.is_path:
            yield from _file(Path(ref.use).expanduser())
    try:
        registrar = load_registrar(settings)
    except FinclawError as error:
        yield bad("extensions", str(error))
        return
    built_in = len(registrar.loaded) - len(settings.agent.extensions)
    names = ", ".join(each.name for each in registrar.loaded[built_in:]) or "none listed"
    if settings.agent.default_extensions:
        names += f"; on by default: {', '.join(settings.agent.default_extensions)}"
    yield ok("extensions", f"{names}; {built_in} built in")
    yield from (bad("channels", problem) for problem in asyncio.run(problems_of_channels(settings, registrar)))
    yield from (bad("prompt", problem) for problem in problems_of_prompt(settings, registrar))
    for each in registrar.loaded:
        yield from (_run_check(check) for check in each.doctor)


def _file(path: Path) -> Iterator[DoctorFinding]:
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


def _run_check(check: DoctorCheck) -> DoctorFinding:
    try:
        said = cast("object", check.look())
    except Exception as error:  # noqa: BLE001  a look of a stranger; that it failed is what it found
        return bad(check.extension, f"{check.name}: the check itself failed ({type(error).__name__}: {error})")
    if not isinstance(said, kernel.Finding):
        return bad(check.extension, f"{check.name}: the check gave {type(said).__name__}, not a Finding")
    level = _LEVELS.get(said.result, "bad")
    return DoctorFinding(check.extension, level, f"{check.name}: {said.text}", said.advice)


# ── problems of the settings that show only when what they name is loaded; `finclaw config check` has them too ──


_QUESTION = 100  # tokens of a short question and what is said beside it
_STEP = 1_024
_HIDES_TOOLS = "tool-search"


def problems_when_loaded(settings: Settings, *, with_model: bool) -> Iterator[str]:
    """What loading the extensions shows; it runs their code, as starting the gateway does. `with_model`: the models are
    known, so that the prompt can be measured for them."""
    is_missing = False
    for each in settings.agent.extensions:
        try:
            find([each])
        except FinclawError as error:
            is_missing = True
            yield str(error)
    if is_missing:
        return
    try:
        registrar = load_registrar(settings)
        check_rules(settings.tools.rules, registrar.tools.list())
    except FinclawError as error:
        yield str(error)
        return
    yield from asyncio.run(problems_of_channels(settings, registrar))
    if with_model:
        yield from problems_of_prompt(settings, registrar)


def problems_of_prompt(settings: Settings, registrar: Registrar) -> Iterator[str]:
    """A line for each model whose window is too small for what stands before every question."""
    try:
        routes = ModelRoutes(settings, None, SystemClock())
    except FinclawError as error:
        yield str(error)
        return
    head = _Head(settings.agent, registrar)
    for model in dict.fromkeys(route.model for route in routes.default):
        try:
            if not head.fits(model):
                yield head.too_small(model)
        except FinclawError as error:
            yield str(error)


class _Head:
    """What stands before every question: the system prompt, which is shorter for a small window, and the tools."""

    def __init__(self, agent: AgentSettings, registrar: Registrar) -> None:
        self._agent = agent
        self._registrar = registrar
        # A search shows the model only the tools that it looks for.
        is_searched = any(each.name == _HIDES_TOOLS for each in registrar.loaded)
        self._specs = () if is_searched else registrar.tools.specs()

    def tokens(self, model: Model) -> int:
        """Raises ConfigError when what must not be left out of the prompt does not fit."""
        system = agent_prompt(self._agent, self._registrar, [model])
        return Estimator(model.vocabulary).tokens_of_head(system, self._specs)

    def fits(self, model: Model) -> bool:
        capacity = Capacity.of(model, self._agent.max_tokens, Thresholds())
        return capacity.status(self.tokens(model) + _QUESTION) != "exceeded"

    def too_small(self, model: Model) -> str:
        enough = next(n for n in count(_STEP, _STEP) if self.fits(replace(model, window=n)))
        ollama = f" (OLLAMA_CONTEXT_LENGTH={enough} ollama serve)" if model.provider == "ollama" else ""
        return (
            f"the window of {model.id} is {model.window:,} tokens, and the prompt and the tools alone need about "
            f"{self.tokens(model):,}; every message would fail. Have its server give it {enough:,}{ollama} "
            f"and declare that (`models: {{{model.id}: {{window: {enough}}}}}`), or choose another model"
        )
