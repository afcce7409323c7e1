"""The problems of the settings that show only when what they name is loaded: extensions, rules, the prompt's size."""

from collections.abc import Iterator

from msgspec.structs import replace

from finclaw.agent.settings import AgentSettings
from finclaw.agent.window.capacity import Capacity, Thresholds
from finclaw.agent.window.tokens.estimator import Estimator
from finclaw.builtin_extensions import load_registrar
from finclaw.composition import agent_prompt
from finclaw.config.routes import Routes
from finclaw.config.schema import Settings
from finclaw.errors import FinclawError
from finclaw.extensions.loading import find
from finclaw.extensions.registrar import Registrar
from finclaw.kernel.chunk import Model
from finclaw.kernel.clock import SystemClock
from finclaw.tools.policy.known import must_know

_QUESTION = 100
"""Tokens of a short question and what is said beside it."""
_STEP = 1_024
_HIDES_TOOLS = "tool-search"


def problems_when_loaded(settings: Settings, *, with_model: bool) -> Iterator[str]:
    """What loading the extensions shows; it runs their code, as starting the gateway does.

    `with_model`: the models are known, so that the prompt can be measured for them.
    """
    missing = list(_problems_of_each(settings))
    yield from missing
    if missing:
        return
    try:
        registrar = load_registrar(settings)
        must_know(settings.tools.rules, registrar.tools.list())
    except FinclawError as error:
        yield str(error)
        return
    if with_model:
        yield from problems_of_prompt(settings, registrar)


def _problems_of_each(settings: Settings) -> Iterator[str]:
    for each in settings.agent.extensions:
        try:
            find([each])
        except FinclawError as error:
            yield str(error)


def problems_of_prompt(settings: Settings, registrar: Registrar) -> Iterator[str]:
    """A line for each model whose window is too small for what stands before every question."""
    try:
        routes = Routes(settings, None, SystemClock())
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
        enough = replace(model, window=_STEP)
        while not self.fits(enough):
            enough = replace(enough, window=enough.window + _STEP)
        full = model.id
        ollama = f" (OLLAMA_CONTEXT_LENGTH={enough.window} ollama serve)" if model.provider == "ollama" else ""
        return (
            f"the window of {full} is {model.window:,} tokens, and the prompt and the tools alone need about "
            f"{self.tokens(model):,}; every message would fail. Have its server give it {enough.window:,}{ollama} "
            f"and declare that (`models: {{{full}: {{window: {enough.window}}}}}`), or choose another model"
        )
