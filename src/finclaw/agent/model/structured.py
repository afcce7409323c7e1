"""Structured answers that code can read: asked for by JSON Schema, checked, and sent back once when they do not fit."""

from collections.abc import Mapping
from typing import Any, Final, cast

import msgspec
from msgspec.structs import replace

from finclaw.agent.turn_state.state import TurnState
from finclaw.agent.window.context_window import MakeSideCall
from finclaw.errors import BadRequest, ContextTooLong, TurnStopped, UnfitAnswer
from finclaw.ids import new_id
from finclaw.kernel.chunk import AnswerSchema, ModelRequest, ToolSpec
from finclaw.kernel.message import Message, Role, Source, Text
from finclaw.kernel.port import Clock
from finclaw.tools.arguments import ArgumentCheck, with_defaults
from finclaw.transcript.request_sanitizer import legal_name

_SYSTEM: Final = (
    "You answer with one JSON object and nothing else: no words before or behind it, no code fence. "
    "It fits this JSON Schema:\n"
)
_AGAIN: Final = (
    "[That does not fit the schema:\n{complaints}\nSend the whole object again, corrected, and nothing else.]"
)
_MOST_COMPLAINTS: Final = 10
_SILENCE: Final = "[nothing]"  # stands for an empty answer, which no API takes back


class StructuredAnswers:
    def __init__(self, ask: MakeSideCall, clock: Clock) -> None:
        self._ask = ask
        self._clock = clock
        self._check = ArgumentCheck()

    async def __call__(self, turn: TurnState, asker: str, prompt: str, schema: Mapping[str, Any]) -> dict[str, Any]:
        """Raises UnfitAnswer when the second answer does not fit either. Each is paid for beside the turn's own."""
        if not turn.state.running:  # its books are closed: a tool that was left behind could spend unseen
            raise TurnStopped(f"{asker} asked the model after its turn had ended")
        form = AnswerSchema(legal_name(asker), with_root(schema))
        request = ModelRequest(
            model=turn.ctx.model,
            # In words as well: not every server knows what a schema is.
            system=_SYSTEM + msgspec.json.encode(form.schema).decode(),
            messages=(self._message("user", prompt),),
            max_tokens=min(turn.max_tokens, turn.ctx.model.max_output),
            temperature=turn.ctx.temperature,
            answer_schema=form,
        )
        said = await self._ask_model(turn, request)
        answer, complaints = self._read(said, form)
        if complaints:
            told = _AGAIN.format(complaints=_list_complaints(complaints))
            if not said.strip():
                said = _SILENCE
            exchange = (self._message("assistant", said), self._message("user", told))
            said = await self._ask_model(turn, replace(request, messages=(*request.messages, *exchange)))
            answer, complaints = self._read(said, form)
        if complaints:
            raise UnfitAnswer(
                f"the model's answer for {asker} did not fit its schema, and did not after one correction:\n"
                f"{_list_complaints(complaints)}\nAsk for less, or do it without."
            )
        return answer

    async def _ask_model(self, turn: TurnState, request: ModelRequest) -> str:
        try:
            return await self._ask(turn, request)
        except ContextTooLong:
            raise
        except BadRequest:  # perhaps because of the schema: each API takes some of the language only
            return await self._ask(turn, replace(request, answer_schema=None))

    def _read(self, said: str, form: AnswerSchema) -> tuple[dict[str, Any], list[str]]:
        try:
            found: object = msgspec.json.decode(_without_fence(said))
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:  # the last: thousands deep
            return {}, [f"it is not one JSON value: {error}"]
        if not isinstance(found, dict):
            return {}, ["it is no JSON object"]
        answer = with_defaults(form.schema, cast("dict[str, Any]", found))
        return answer, self._check.complaints(ToolSpec(form.name, "", form.schema), answer)

    def _message(self, role: Role, text: str) -> Message:
        return Message(new_id(), role, (Text(text),), Source("system"), self._clock.now())


def with_root(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Replace a reference at the root by what it refers to: generators of schemas like to write one there."""
    root = dict(schema)
    definitions = cast("Mapping[str, Any]", schema.get("$defs", {}))
    target = definitions.get(str(root.get("$ref", "")).removeprefix("#/$defs/"))
    if not isinstance(target, dict):
        return root
    del root["$ref"]
    return {**root, **cast("dict[str, Any]", target)}


def _without_fence(said: str) -> str:
    text = said.strip()
    if text.startswith("```") and text.endswith("```") and "\n" in text:
        return text[text.index("\n") : -3]
    return text


def _list_complaints(complaints: list[str]) -> str:
    lines = complaints[:_MOST_COMPLAINTS]
    if len(complaints) > _MOST_COMPLAINTS:
        lines.append(f"and {len(complaints) - _MOST_COMPLAINTS} more")
    return "\n".join(f"- {line}" for line in lines)
