"""A question of a tool's own to the model, answered in a form that code can read."""

from collections.abc import Mapping
from typing import Any, Protocol


class Ask(Protocol):
    """Asks the turn's model beside the conversation: nobody sees it, and it is paid for like any question.

    The answer fits the JSON Schema, which is one of an object; an answer that does not is sent back once, with what is
    wrong. Raises UnfitAnswer after that, ProviderError when no model answers, BudgetExceeded when none may be asked.
    """

    async def __call__(self, prompt: str, schema: Mapping[str, Any]) -> dict[str, Any]: ...
