"""Secrets with a name of their own, and every place in which one might come out again.

What is promised, place by place:

    kept     the transcript, what the model reads, HTTP to the token's holder, `--json` and `sessions export` (a file
             for its owner alone): a person's own words and the arguments a model made, to the letter, for else they
             would be of no use. Nothing else with a secret in it gets here: results, errors and notes are cleaned
             before they are kept.
    told     replies, previews, log lines, events, the journal and the outcome, and whatever a command prints for
             people: no secret at all, whoever wrote it.
    a card   an action that a person is asked about is shown to the letter, or it is not asked for at all.
"""

import io
from collections.abc import Iterator
from typing import Final, get_args

import msgspec
from tests.walks.house import Gateway

from finclaw.cli.commands.trace import trace_of
from finclaw.kernel.approval import ApprovalState
from finclaw.kernel.message import Message, ToolCall
from finclaw.transcript.approval_ids import without_approval_ids

CANARIES: Final = {
    "api key": "sk-canary7Q2w9Zx4Lm8Tn3Vb6",
    "card": "4539 1488 0343 6467",
    "resident": "900101-1234568",
    "token": "ghp_CanaryCanaryCanary0123456789abcdef",
    "bearer": "Bearer cAnArY0123456789abcdefXYZ",
    "password": "password=cAnArY-horse-9",
}
SECRETS: Final = tuple(each.removeprefix("Bearer ").removeprefix("password=") for each in CANARIES.values())
KEY: Final = CANARIES["api key"]
ALL: Final = " | ".join(f"{name}: {secret}" for name, secret in CANARIES.items())


def hits(text: str) -> list[str]:
    """Also as JSON writes it, and without the gaps."""
    return [each for each in SECRETS if each in text or each.replace(" ", "") in text]


async def told(gateway: Gateway, lines: io.StringIO) -> Iterator[tuple[str, str]]:
    """Every place that is for others than the conversation itself, with its text; cards are cut out of it."""
    stories = [await gateway.app.turn(turn.turn_id) for turn in await gateway.app.turns(50)]
    outcomes = [story.outcome for story in stories if story is not None]
    places = {
        "a reply": "\n".join(gateway.said),
        "an event": "\n".join(map(repr, gateway.events)),
        "a log line": lines.getvalue(),
        "an outcome": repr(outcomes),
        "the journal": repr([stage for each in outcomes if each for stage in each.stages]),
    }
    return await _without_cards(gateway, places)


async def _without_cards(gateway: Gateway, places: dict[str, str]) -> Iterator[tuple[str, str]]:
    asked = await gateway.app.approvals(get_args(ApprovalState), limit=100)
    cards = [card for each in asked for card in (each.card, without_approval_ids(each.card))]  # a model reads no ids
    forms = [form for card in cards for form in (card, repr(card)[1:-1], msgspec.json.encode(card).decode()[1:-1])]
    for form in forms:
        places = {place: text.replace(form, "") for place, text in places.items()}
    return iter(places.items())


async def kept(gateway: Gateway, *, arguments: bool) -> Iterator[tuple[str, str]]:
    """The conversation itself, as it is kept and as the model reads it; with the arguments it made, or without."""
    stories = [await gateway.app.turn(turn.turn_id) for turn in await gateway.app.turns(50)]
    sessions = (await gateway.app.sessions(50)).items
    messages = [message for each in sessions for message in await gateway.app.messages(each.key)]
    read = [message for request in gateway.provider.requests for message in request.messages]
    traces = [msgspec.json.encode(trace_of(story)).decode() for story in stories if story is not None]
    shown = messages if arguments else [_without_arguments(each) for each in messages]
    seen = read if arguments else [_without_arguments(each) for each in read]
    places = {"a transcript": msgspec.json.encode(shown).decode(), "what the model reads": repr(seen)}
    if arguments:
        places |= {"a trace": "\n".join(traces), "a record": msgspec.json.encode(stories).decode()}
    return await _without_cards(gateway, places)


def _without_arguments(message: Message) -> Message:
    blocks = tuple(each for each in message.blocks if not isinstance(each, ToolCall))
    return msgspec.structs.replace(message, blocks=blocks)


async def must_be_clean(gateway: Gateway, lines: io.StringIO, what: str, *, arguments: bool = True) -> None:
    """Nowhere at all; with `arguments=False` what the model itself wrote as arguments is left aside."""
    assert gateway.said, "nobody was told anything"
    for place, text in (*await told(gateway, lines), *await kept(gateway, arguments=arguments)):
        assert hits(text) == [], f"{what}: {hits(text)} in {place}"
