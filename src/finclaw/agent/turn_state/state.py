"""State of a running turn and of a running tool call that only the core may touch. Each holds what its layers see."""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeVar, runtime_checkable

from finclaw.agent.budget.budget import TurnBudget
from finclaw.agent.turn_state.turn_log import TurnLog
from finclaw.cancellation import asked_to_stop
from finclaw.errors import TurnStopped
from finclaw.kernel.approval import Approval
from finclaw.kernel.chunk import ToolSpec
from finclaw.kernel.context import Context
from finclaw.kernel.message import Message, ToolCall, ToolResult
from finclaw.kernel.scope import ToolCallContext, TurnContext
from finclaw.sessions.steering import Steering
from finclaw.tools.loop_guard import LoopGuard

if TYPE_CHECKING:
    from finclaw.agent.model.failover import ModelRoute
    from finclaw.agent.window.context_window import ContextGuard

State = Literal["idle", "streaming", "tool_use", "executing", "done", "failed", "aborted"]

MOVES: Final[Mapping[State, tuple[State, ...]]] = MappingProxyType(
    {
        # A resumed turn whose log ends with the model's wish for tools begins with that wish. A turn that a layer
        # answers itself is done without a model call, and one may fail or be stopped before its first.
        "idle": ("streaming", "tool_use", "done", "failed", "aborted"),
        # To itself: the model is called anew after a failure, or once more although it asked for no tool.
        "streaming": ("streaming", "tool_use", "done", "failed", "aborted"),
        # Refused and skipped calls get their results like all others, so there is no way around executing.
        "tool_use": ("executing", "failed", "aborted"),
        "executing": ("streaming", "done", "failed", "aborted"),
        "done": ("idle",),
        "failed": ("idle",),
        "aborted": ("idle",),
    }
)


class InvalidMove(RuntimeError):
    """Not a FinclawError: our own loop went wrong, and `except FinclawError` must never hide that."""

    def __init__(self, before: State, after: State) -> None:
        super().__init__(f"a stream cannot go from {before} to {after}; allowed: {', '.join(MOVES[before])}")
        self.before: State = before
        self.after: State = after


class StateMachine:
    """`emit` is told the state before and after each move. It must not raise."""

    def __init__(self, emit: Callable[[State, State], None]) -> None:
        self._emit = emit
        self._state: State = "idle"

    @property
    def state(self) -> State:
        return self._state

    @property
    def running(self) -> bool:
        return self._state in ("streaming", "tool_use", "executing")

    def move(self, after: State) -> None:
        before = self._state
        if after not in MOVES[before]:
            raise InvalidMove(before, after)
        self._state = after
        self._emit(before, after)

    def reset(self) -> None:
        """Back to idle from anywhere. What still runs is aborted first, so that the table has no hidden edges."""
        if self.running:
            self.move("aborted")
        if self._state != "idle":
            self.move("idle")


T = TypeVar("T")


class SideCalls:
    """A tool that was left behind may still wait for an answer when the books are closed."""

    def __init__(self) -> None:
        self._under_way: dict[asyncio.Task[Any], Callable[[], None]] = {}
        self._closed = False

    async def ask(self, question: Coroutine[Any, Any, T], settle: Callable[[], None]) -> T:
        """`settle` pays for what has come of its answer by then. Raises TurnStopped when the turn ends first."""
        if self._closed:
            question.close()
            raise TurnStopped("the turn is over, and asks nothing more")
        asked = asyncio.create_task(question)
        self._under_way[asked] = settle
        try:
            return await asked
        except asyncio.CancelledError:
            if asked_to_stop() or not self._closed:
                raise
            raise TurnStopped("the turn was over before the model had answered") from None
        finally:
            del self._under_way[asked]

    def close(self) -> None:
        """Close the books at once, without waiting: nothing is spent after this."""
        self._closed = True
        for asked, settle in self._under_way.items():
            settle()
            asked.cancel()


@dataclass(slots=True, kw_only=True)
class TurnState:
    ctx: TurnContext  # what its layers see and may change
    log: TurnLog
    state: StateMachine
    loop: LoopGuard
    max_steps: int
    attempts: int  # how often a model is asked the same before somebody else is
    max_tokens: int  # the longest answer of one model call, without what it thinks
    stop_sequences: tuple[str, ...] = ()
    picked: "Sequence[ModelRoute]" = ()  # routes to the model that somebody chose; then no other
    allowed: Collection[str] | None  # whatever a layer puts into the catalog; None: all
    denied: frozenset[str] = frozenset()  # denied by policy whatever the arguments
    asked_in: Context  # as it was made: no layer changes who asked, and where
    without_thinking: bool = False  # asked without thoughts since a refusal of them
    offered: tuple[str, ...] = ()  # the catalog of the running step, never wider later
    side_calls: SideCalls = field(default_factory=SideCalls)
    guard: "ContextGuard | None" = None  # over its requests, once the window gets tight
    budget: TurnBudget | None = None
    approved: Approval | None = None
    unseen: tuple[Message, tuple[ToolResult, ...]] | None = None
    """A step that was over when the turn died, for its layers to see: what ends the turn may be theirs to say."""
    entered: bool = False  # its layers let it through to the core

    @property
    def longest_answer(self) -> int:
        """Tokens that one call may write; what it thinks comes on top of what it says."""
        return self.ctx.model.longest_answer(self.max_tokens, self.ctx.thinking)


def permitted_tools(
    catalog: tuple[ToolSpec, ...], allowed: Collection[str] | None, denied: Collection[str]
) -> tuple[ToolSpec, ...]:
    if allowed is None and not denied:
        return catalog
    within = [spec for spec in catalog if allowed is None or spec.name in allowed]
    return tuple([spec for spec in within if spec.name not in denied])


@dataclass(slots=True, kw_only=True)
class CallState:
    ctx: ToolCallContext  # what its layers see; they may change the arguments
    turn: TurnState
    call: ToolCall  # the call as the model made it
    checked_args: dict[str, Any] | None = None
    coercion_note: str = ""  # for the model, when arguments were read as another type
    core_result: ToolResult | None = None  # counts for facts, and for how an order ended


@runtime_checkable
class RecordedTurn(Protocol):
    """A turn from the record that is run again: it stands in for the window's guard and for every tool."""

    def guard(self) -> "ContextGuard":
        """A guard that leaves the conversation as it is."""
        ...

    def steering(self, log: TurnLog) -> Steering | None:
        """What gives the turn the messages that joined it then; None: none did."""
        ...

    async def answer_call(self, call: CallState) -> ToolResult | None:
        """The result as it was then, in the core's own name; None where the core must answer itself."""
        ...
