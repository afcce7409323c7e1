"""What a call has used: as its server told, and where that is silent or older than the last words, as estimated."""

from typing import Protocol

from msgspec.structs import replace

from finclaw.agent.tokens import Estimator
from finclaw.kernel.chunk import Model, ModelRequest, ToolSpec, Usage


class Settle(Protocol):
    """What a call has used, whatever came of it."""

    def __call__(self, reported: Usage, *, begun: bool, said: str, whole: bool) -> Usage: ...


class Meter:
    """Counts in the tokens of each model, as far as we know them."""

    def __init__(self) -> None:
        self._estimators: dict[str, Estimator] = {}

    def estimator(self, model: Model) -> Estimator:
        name = f"{model.provider}/{model.name}"
        if name not in self._estimators:
            self._estimators[name] = Estimator(model.vocabulary)
        return self._estimators[name]

    def count(self, request: ModelRequest) -> int:
        """Tokens of a request, as we count them."""
        estimator = self.estimator(request.model)
        form = request.answer_schema
        schema = 0 if form is None else estimator.tokens_of_tool(ToolSpec(form.name, "", form.schema))
        head = estimator.tokens_of_head(request.system, request.tools)
        return head + schema + sum(map(estimator.tokens_of, request.messages))

    def used(self, request: ModelRequest, reported: Usage, *, begun: bool, said: str, whole: bool) -> Usage:
        """As it was reported, else as estimated if an answer had begun to come.

        A stream that was cut, or that somebody stopped, is paid for all the same; so is one of a server that never
        reports anything. Of one that is not `whole` a report may be older than the last words.
        """
        told = reported != Usage()
        if not begun or (told and whole):
            return reported
        estimator = self.estimator(request.model)
        output = estimator.tokens_in(said)
        if told:
            return replace(reported, output=max(reported.output, output))
        return Usage(input=estimator.corrected(self.count(request)), output=output)
