"""A turn and a step while they run: what layers see, and beside it what only the core may touch."""

from dataclasses import dataclass

from finclaw.agent.log import TurnLog
from finclaw.kernel.scope import TurnContext


@dataclass(slots=True, kw_only=True)
class RunningTurn(TurnContext):
    log: TurnLog

    @staticmethod
    def of(turn: TurnContext) -> "RunningTurn":
        """The same turn, seen from the core. Only the core makes turns, so this never fails for one of ours."""
        if not isinstance(turn, RunningTurn):
            raise TypeError("a TurnContext that the agent did not make cannot be run")
        return turn
