"""State of a running turn and of a running tool call that only the core may touch. Each holds what its layers see."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from finclaw.agent.budget.turn_budget import TurnBudget
from finclaw.agent.turn_state.side_calls import SideCalls
from finclaw.agent.turn_state.stream_state import StateMachine
from finclaw.agent.turn_state.turn_log import TurnLog
from finclaw.agent.window.guard import ContextGuard
from finclaw.errors import ExtensionError
from finclaw.kernel.approval import Approval
from finclaw.kernel.context import Context
from finclaw.kernel.message import Message, ToolCall, ToolResult
from finclaw.kernel.scope import ToolCallContext, TurnContext
from finclaw.sessions.steering import Steering
from finclaw.tools.loop_guard import LoopGuard

if TYPE_CHECKING:
    from finclaw.agent.model.route import ModelRoute


@dataclass(slots=True, kw_only=True)
class TurnState:
    """A turn while it runs."""

    ctx: TurnContext
    """What its layers see and may change."""
    log: TurnLog
    state: StateMachine
    loop: LoopGuard
    max_steps: int
    attempts: int
    """How often a model is asked the same before somebody else is."""
    max_tokens: int
    """The longest answer of one model call, without what it thinks."""
    stop_sequences: tuple[str, ...] = ()
    picked: "Sequence[ModelRoute]" = ()
    """The ways to the model that somebody chose for this turn. No other is asked then; empty: nobody chose."""
    allowed: Collection[str] | None
    """The only tools this turn may run, whatever a layer puts into the catalog; None: all of them."""
    denied: frozenset[str] = frozenset()
    """Tools that policy denies to this person whatever the arguments: they are not offered, and a call is refused."""
    asked_in: Context
    """The context as it was made: who asked, and where, is no layer's to change."""
    without_thinking: bool = False
    """A question of it was refused with what its model had thought, and has been asked without since."""
    offered: tuple[str, ...] = ()
    """What the running step may use: its catalog when its layers had let it through, and no wider afterwards."""
    side_calls: SideCalls = field(default_factory=SideCalls)
    """What it asks for itself, beside its own calls."""
    guard: ContextGuard | None = None
    """Over its requests, once the model's window gets tight."""
    budget: TurnBudget | None = None
    """What it pays model calls from; None where there is no budget."""
    approved: Approval | None = None
    """What a person has agreed to, in the turn that runs it."""
    unseen: tuple[Message, tuple[ToolResult, ...]] | None = None
    """A step that was over when the turn died, for its layers to see: what ends the turn may be theirs to say."""
    entered: bool = False
    """The layers let it through to its core."""

    @property
    def longest_answer(self) -> int:
        """Tokens that one call may write, as far as its model goes; what it thinks comes on top of what it says."""
        model = self.ctx.model
        return min(self.max_tokens + model.room_to_think(self.ctx.thinking), model.max_output)


@dataclass(slots=True, kw_only=True)
class CallState:
    """A tool call while it runs."""

    ctx: ToolCallContext
    """What its layers see; they may change the arguments."""
    turn: TurnState
    call: ToolCall
    """The call as the model made it."""
    checked_args: dict[str, Any] | None = None
    """The arguments with which the core ran it, once they have been checked."""
    coercion_note: str = ""
    """A line for the model when some of them were read as another type than it wrote."""
    core_result: ToolResult | None = None
    """What the core itself says of this call: the only facts that count, and how an order truly ended."""

    def check_identity(self) -> None:
        """Raises ExtensionError where a layer has changed more than the arguments."""
        if (self.ctx.tool_name, self.ctx.call_id) != (self.call.name, self.call.id):
            raise ExtensionError(f"a layer changed which tool {self.call.id!r} calls; only ctx.args may be changed")


@runtime_checkable
class RecordedTurn(Protocol):
    """A turn from the record that is run again: it stands in for the window's guard and for every tool."""

    def guard(self) -> ContextGuard:
        """A guard that leaves the conversation as it is."""
        ...

    def steering(self, log: TurnLog) -> Steering | None:
        """What gives the turn the messages that joined it then; None: none did."""
        ...

    async def answer_call(self, call: CallState) -> ToolResult | None:
        """The result as it was then, in the core's own name; None where the core must answer itself."""
        ...
