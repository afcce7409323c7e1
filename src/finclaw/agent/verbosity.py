"""How long an answer should be: a note behind everything else, so that what a model's cache knows stays the same."""

from datetime import datetime
from typing import Final

from finclaw.agent.prompt.moment import length_wanted
from finclaw.agent.running import RunningTurn
from finclaw.kernel.envelope import new_id
from finclaw.kernel.message import Append, Message, Source, Text

KEY: Final = "verbosity"


def say_how_long(turn: RunningTurn, now: datetime) -> None:
    """Before each model call, for a layer may have changed its mind. Said once, and again when it is another."""
    said = next((each.text for each in reversed(turn.log.messages) if each.passing == KEY), None)
    if said is None and turn.verbosity == "medium":
        return
    wanted = length_wanted(turn.verbosity)
    if wanted != said:
        turn.log.push(Append(Message(new_id(), "system", (Text(wanted),), Source("system"), now, passing=KEY)))
