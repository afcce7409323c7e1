"""`finclaw trace`: what became of a message, with the steps, calls, times and costs of its turn."""

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from urllib.parse import quote, urlencode

import msgspec

from finclaw.agent.window.compaction.options import is_summary
from finclaw.cli.arguments import add_turn_argument
from finclaw.cli.attach import StateClient, attach
from finclaw.cli.formatting import fit_line, terminal_columns
from finclaw.cli.options import settings_to_look
from finclaw.cli.trace.tree import trace_of, tree_lines
from finclaw.config.schema import Settings
from finclaw.errors import ConfigError
from finclaw.kernel.approval import Approval
from finclaw.kernel.record import TurnTrace
from finclaw.redaction import hide_known_secrets
from finclaw.text import escape_json
from finclaw.web.approvals_view import ApprovalsView
from finclaw.web.view import TurnsView


def arguments(parser: ArgumentParser) -> None:
    add_turn_argument(parser)


def run(args: Namespace) -> int:
    trace = trace_of(*find_turn_and_approvals(settings_to_look(args), args.turn))
    if args.json:
        print(escape_json(hide_known_secrets(msgspec.json.encode(trace).decode())))
    else:
        print("\n".join(fit_line(line, terminal_columns()) for line in tree_lines(trace)))
    return 0


# ── lookup of a turn of the past by what was typed ──────────────────────────────────────────────────────────────


def find_turn(settings: Settings, name: str) -> TurnTrace:
    """By a turn's id, a message's id, or `last`. Raises ConfigError when there is none, with what to type instead."""
    with attach(settings) as client:
        return _find_turn(client, settings, name)


def find_turn_and_approvals(settings: Settings, name: str) -> tuple[TurnTrace, Sequence[Approval]]:
    """The turn, with the approvals of its session, which may be its own or not."""
    with attach(settings) as client:
        story = _find_turn(client, settings, name)
        query = urlencode({"state": "all", "limit": 500, "session": story.record.session})
        return story, client.call("GET", f"/api/v1/approvals?{query}", ApprovalsView).items


def _find_turn(client: StateClient, settings: Settings, name: str) -> TurnTrace:
    turn_id = name
    if name == "last":
        latest = client.call("GET", "/api/v1/turns?limit=1", TurnsView).items
        if not latest:
            raise ConfigError(f"there is no turn yet in {settings.state}; `finclaw ask` makes the first")
        turn_id = latest[0].turn_id
    found = client.find(f"/api/v1/turns/{quote(turn_id, safe='', errors='replace')}", TurnTrace)
    if found is None:
        raise ConfigError(f"there is no turn {name!r} in {settings.state}; `finclaw turns` lists the latest")
    return found


def condensed_steps(story: TurnTrace) -> int:
    """How many of its own steps the turn made a summary of while it ran; a later turn's doing is not its own."""
    ended = story.record.ended_at
    if not any(is_summary(each) and (ended is None or each.created_at <= ended) for each in story.messages):
        return 0
    return story.record.steps - sum(message.source.kind == "assistant" for message in story.messages)
