"""One question to the model: always streamed, always collected, its usage kept with the answer."""

import random
import re
from collections.abc import Sequence
from functools import cache, lru_cache, partial
from typing import Any, Final

from msgspec import convert
from msgspec.structs import replace

from finclaw.agent.asking import Asking, ModelRoute
from finclaw.agent.books import usage_so_far
from finclaw.agent.cooldown import Cooldowns
from finclaw.agent.log import APPROVED
from finclaw.agent.meter import UNFORESEEN, Meter, most_of
from finclaw.agent.paid import Paid, to_metadata, usage_of
from finclaw.agent.plainer import without_thoughts
from finclaw.agent.room import Rooms
from finclaw.agent.running import RunningTurn
from finclaw.agent.stream import Answer
from finclaw.agent.unseen_ids import UnseenIds
from finclaw.agent.verbosity import say_how_long
from finclaw.errors import BadRequest, ContextTooLong
from finclaw.kernel.chunk import Model, ModelRequest, StopReason, ToolSpec, Usage
from finclaw.kernel.envelope import new_id
from finclaw.kernel.event import MessageCompleted, UsageUpdated
from finclaw.kernel.message import Block, Message, Source, Text, ToolCall
from finclaw.kernel.port import Clock
from finclaw.tools.guard.told import without_secrets
from finclaw.transcript.history import as_messages

_LEGAL_ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,40}")
MOST_PIECES: Final = 32
"""In which a replay tells an answer."""
MOST_SHORTENINGS: Final = 2
"""How often one call may find that the model takes less than we thought."""
_SURELY_UNIQUE: Final = 20
"""Characters of an id that was not counted but drawn."""
_LONGEST_NAME: Final = 64
"""Of those that are remembered; no API takes a longer one."""


class ModelCall:
    """`routes` are the ways to an answer: the chosen model first, then what is asked when it does not answer."""

    def __init__(self, routes: Sequence[ModelRoute], clock: Clock) -> None:
        self._routes = routes
        self._clock = clock
        self._cooldowns = Cooldowns(clock)
        self._dice = random.Random()
        self._meter = Meter()
        self._rooms = Rooms(clock, self.ask_quietly)
        self._ids = UnseenIds()

    async def __call__(self, turn: RunningTurn, tools: tuple[ToolSpec, ...], step: int) -> Message:
        """The assistant's message. Raises ProviderError; nothing of a failed answer is kept."""
        turn.state.move("streaming")
        say_how_long(turn, self._clock.now())
        answer, route, paid = await self._answered(turn, tools)
        message = Message(
            id=new_id(),
            role="assistant",
            blocks=answer.blocks,
            source=_source(step),
            created_at=self._clock.now(),
            metadata=_metadata(answer, route.model, turn.model, paid),
        )
        if route.model == turn.model:  # what another one counted says nothing about this one
            self._rooms.measured(turn, answer.usage, message)
        self._tell(turn, message, answer.usage, step)
        return message

    async def _answered(self, turn: RunningTurn, tools: tuple[ToolSpec, ...]) -> tuple[Answer, ModelRoute, list[Paid]]:
        """Within the window of whoever is asked: what is too long for it is shortened, also when only it knew."""
        shortened = 0
        said: list[str] = []
        while True:
            asking = Asking(turn, self._clock, self._cooldowns, self._dice, self._meter, said=said)
            try:
                answer, route = await asking(self._routes_of(turn), partial(self._request, turn, tools))
            except BadRequest as error:
                asked = asking.asked
                if asked is None:  # nobody's window is large enough
                    raise
                if not (isinstance(error, ContextTooLong) or self._rooms.may_have_overflowed(turn, tools, asked)):
                    raise
                shortened += 1
                if shortened > MOST_SHORTENINGS or not await self._rooms.overflowed(turn, asked):
                    raise
            else:
                return answer, route, asking.paid

    async def _request(self, turn: RunningTurn, tools: tuple[ToolSpec, ...], model: Model) -> ModelRequest:
        """The question as this model gets it. Raises ContextTooLong."""
        room = await self._rooms.fit(turn, tools, model)
        messages = turn.conversation.next_messages
        request = ModelRequest(
            model=model,
            system=turn.system,
            messages=without_thoughts(messages) if turn.plain else as_messages(messages),
            tools=tools,
            max_tokens=room,
            temperature=turn.temperature,
            thinking=turn.thinking,
            stop_sequences=turn.stop_sequences if model.features.stop_sequences else (),
        )
        return self._ids.take_out(request)

    def _routes_of(self, turn: RunningTurn) -> Sequence[ModelRoute]:
        if turn.picked:
            return tuple(replace(route, model=turn.model) for route in turn.picked)
        chosen = self._routes[0].model
        if turn.model is chosen:
            return self._routes
        # A layer has chosen another: by the same keys.
        return [replace(each, model=turn.model) if each.model is chosen else each for each in self._routes]

    def head_tokens(self, system: str, tools: tuple[ToolSpec, ...]) -> int:
        """Of what stands before the messages of every request, for the chosen model."""
        estimator = self._meter.estimator(self._routes[0].model)
        return estimator.corrected(estimator.tokens_of_head(system, tools))

    def reserve_next(self, turn: RunningTurn, tools: tuple[ToolSpec, ...]) -> None:
        """Reserve the call that will follow the turn's next commit, as far as it can be known by then."""
        messages, model = as_messages(turn.conversation.next_messages), turn.model
        request = ModelRequest(model=model, system=turn.system, messages=messages, tools=tools)
        tokens = self._meter.size(request, whole=turn.guard is not None).tokens + UNFORESEEN
        payer, now = turn.log.ledger.payer, self._clock.now()
        turn.log.ledger.reserve_ahead(most_of(model, tokens, turn.longest_answer, payer, now))

    async def ask_quietly(self, turn: RunningTurn, request: ModelRequest) -> str:
        """For the turn itself: nobody sees the answer, and it is paid for beside the turn's own calls."""
        request = self._ids.take_out(request)
        asking = Asking(turn, self._clock, self._cooldowns, self._dice, self._meter, quiet=True)

        async def same(model: Model) -> ModelRequest:
            return replace(request, model=model)

        answer, _ = await turn.quiet.ask(asking(self._routes_of(turn), same), asking.settle)
        return "".join(block.text for block in answer.blocks if isinstance(block, Text))

    @staticmethod
    def _tell(turn: RunningTurn, message: Message, usage: Usage, step: int) -> None:
        total = usage_so_far(turn.log) + usage_of(message)
        turn.emit(MessageCompleted(message_id=message.id, step=step, **turn.ids))
        turn.emit(UsageUpdated(usage=total, context=usage.input + usage.cache_read + usage.cache_write, **turn.ids))


@cache
def _source(step: int) -> Source:
    """One for all answers that came as such a step: conversations are many, and keep theirs."""
    return Source("assistant", str(step))


def _metadata(answer: Answer, model: Model, chosen: Model, paid: list[Paid]) -> dict[str, Any]:
    """What travels with the message, so that a resumed turn still knows it and a replay can repeat it."""
    metadata = {**to_metadata(model, paid), "stop": answer.stop}
    if (model.provider, model.name) != (chosen.provider, chosen.name):
        metadata["instead_of"] = f"{chosen.provider}/{chosen.name}"
    if [each.usage for each in paid] not in ([], [answer.usage]):  # so what was paid for is not the conversation's size
        metadata["context"] = answer.usage.total
    if len(answer.lengths) > 1:
        metadata["chunks"] = _coarsely(answer.lengths)
    return metadata


def _coarsely(lengths: Sequence[int]) -> list[int]:
    """The same text in no more pieces than are worth keeping: a replay needs the pace, not every word."""
    several = -(-len(lengths) // MOST_PIECES)
    return [sum(lengths[at : at + several]) for at in range(0, len(lengths), several)]


def stop_of(message: Message) -> StopReason:
    stop = message.metadata.get("stop", "end")
    return "end" if stop == "end" else convert(stop, StopReason)


def without_calls(message: Message) -> Message:
    """For an answer that was asked for without tools: a call in it will not be run, so it must not stay open."""
    return replace(message, blocks=tuple(block for block in message.blocks if not isinstance(block, ToolCall)))


def with_own_ids(message: Message, conversation: Sequence[Message]) -> Message:
    """The same calls, each with an id that is legal everywhere and its own in the conversation: results go by it.

    Some models number the calls of every answer anew, or not at all. Nor is a secret the name of a call: everybody
    hears that, from observers to the trace.
    """
    calls = message.tool_calls
    if not calls:
        return message
    short = any(len(call.id) < _SURELY_UNIQUE for call in calls)  # else there is no need to look
    used = {call.id for each in conversation for call in each.tool_calls} if short else set[str]()
    blocks: list[Block] = []
    for block in message.blocks:
        if isinstance(block, ToolCall):
            # Nor may it take the name of a call that a person approved, and run under it once more.
            if block.id in used or block.id.startswith(APPROVED) or not _LEGAL_ID.fullmatch(block.id):
                block = replace(block, id=f"call_{new_id()}")  # noqa: PLW2901
            if (name := _safe_name(block.name)) != block.name:
                block = replace(block, name=name)  # noqa: PLW2901
            used.add(block.id)
        blocks.append(block)
    return replace(message, blocks=tuple(blocks))


def _safe_name(name: str) -> str:
    return _safe_known_name(name) if len(name) <= _LONGEST_NAME else without_secrets(name)


@lru_cache(maxsize=1_024)
def _safe_known_name(name: str) -> str:
    """Looked through once: a model calls the same tools again and again, and their names look a little like keys."""
    return without_secrets(name)
