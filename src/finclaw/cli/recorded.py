"""Finds a turn of the past by what a person types."""

from finclaw.cli.shelf import opened
from finclaw.config.schema import Settings
from finclaw.errors import ConfigError
from finclaw.kernel.record import TurnStory


def find_turn(settings: Settings, name: str) -> TurnStory:
    """By a turn's id, a message's id, or `last`. Raises ConfigError when there is none, with what to type instead."""
    with opened(settings) as shelf:
        if name != "last":
            found = shelf.turn(name)
        elif turns := shelf.turns(1):
            found = shelf.turn(turns[0].turn_id)
        else:
            raise ConfigError(f"there is no turn yet in {settings.state}; `finclaw ask` makes the first")
    if found is None:
        raise ConfigError(f"there is no turn {name!r} in {settings.state}; `finclaw turns` lists the latest")
    return found
