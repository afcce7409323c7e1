"""`finclaw replay`: run a recorded turn again in a gateway of its own, offline, and show what comes out differently.

The settings, extensions and layers are today's; the model's answers and the tools' results are the recorded ones.
The message is laid into a throw-away state as if a gateway had stopped right after accepting it, and a gateway in
virtual time takes it up there.
"""

import logging
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from difflib import unified_diff
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
from msgspec import Struct, structs

from finclaw.agent.settings import AgentSettings
from finclaw.channels.mailbox import MailboxChannel
from finclaw.cli.arguments import add_turn_argument, settings_from
from finclaw.cli.commands.trace import condensed_steps, find_turn
from finclaw.cli.formatting import clean, json_line, plural
from finclaw.cli.recording import Recording, own_blocks, ran_out_of_time
from finclaw.composition import build
from finclaw.config.schema import Settings, StorageSettings
from finclaw.errors import ConfigError
from finclaw.kernel.envelope import OPTIONS
from finclaw.kernel.extension import Extension
from finclaw.kernel.message import Image, Message, Text, Thinking, ToolCall, ToolResult
from finclaw.kernel.record import Accepted, TurnTrace
from finclaw.kernel.scope import Outcome
from finclaw.redaction.redact import redact_for_display
from finclaw.storage.sqlite.database import DATABASE
from finclaw.storage.sqlite.store import open_store
from finclaw.testing.clock import FakeClock

SAME, DIFFERENT = 0, 1


# ── differences between two runs of one turn: named parts of text, and a diff of every part that differs ────────


Arguments = Mapping[str, Mapping[str, Any]]
"""With which each call reached its tool, by the call's id."""


class Difference(Struct, frozen=True):
    """One part of the turn, as it is in the record and as it comes out now; None where it is not there at all."""

    part: str
    recorded: str | None
    now: str | None

    def lines(self) -> Iterator[str]:
        yield from unified_diff(_lines(self.recorded), _lines(self.now), "recorded", "now", lineterm="", n=2)


def _lines(text: str | None) -> list[str]:
    return [] if text is None else text.splitlines() or [""]


def differences(recorded: TurnTrace, now: TurnTrace, given: Arguments) -> list[Difference]:
    """In the order of the turn. `given` is what the tools were given now."""
    ends = _compare_parts(_end_parts(recorded), _end_parts(now))
    if not now.messages:  # no turn came of it: what the agent would have done is beside the point
        return ends
    return _compare_parts(_run_parts(recorded, recorded_arguments(recorded)), _run_parts(now, given)) + ends


def _compare_parts(then: Mapping[str, str], now: Mapping[str, str]) -> list[Difference]:
    names = dict.fromkeys((*then, *now))
    return [Difference(name, then.get(name), now.get(name)) for name in names if then.get(name) != now.get(name)]


def recorded_arguments(story: TurnTrace) -> Arguments:
    """What layers had made of the model's arguments, where the record says so."""
    given: dict[str, Mapping[str, Any]] = {}
    for message in story.messages:
        given |= message.metadata.get("given", {})
    return given


def _run_parts(story: TurnTrace, given: Arguments) -> dict[str, str]:
    parts: dict[str, str] = {}
    step = 0
    for place, message in enumerate(story.messages, 1):
        match message.source.kind:
            case "assistant":
                step += 1
                parts[f"step {step}"] = "\n".join(_answer(message, given))
            case "tool":
                for number, result in enumerate(message.tool_results, 1):
                    parts[f"step {step}, result {number} ({result.name})"] = _result(result)
            case "system":
                pass  # the gateway's last word, which is the reply
            case kind:
                parts[f"message {place} ({message.source.name or kind})"] = message.text
    return parts


def _end_parts(story: TurnTrace) -> dict[str, str]:
    end = {"status": story.record.status, "steps": str(story.record.steps)}
    if story.outcome is not None and story.outcome.kind == "joined":  # its turn answers a later message
        end["outcome"], end["reply"] = "answered", story.outcome.reply or ""
    elif story.outcome is not None:
        end["outcome"] = f"{story.outcome.kind} {story.outcome.reason}".strip()
        end["reply"] = story.outcome.reply or ""
    return end


def _answer(message: Message, given: Arguments) -> Iterator[str]:
    for block in own_blocks(message):
        match block:
            case Text(text) | Thinking(text):
                yield text
            case ToolCall():
                arguments = given.get(block.id, block.args) if block.bad_args is None else block.bad_args
                yield f"{block.name} {_json(arguments)}"
            case Image() | ToolResult():
                pass


def _result(result: ToolResult) -> str:
    facts = [_json(fact) for fact in result.facts]
    error = [] if result.error is None else [_json(result.error)]
    return "\n".join([result.status, result.content, *error, *facts])


def _json(value: object) -> str:
    return msgspec.json.encode(value, order="sorted").decode()


# ── the command ─────────────────────────────────────────────────────────────────────────────────────────────────


class Replayed(Struct, frozen=True, kw_only=True):
    """The result of a replay."""

    turn_id: str
    identical: bool
    differences: list[Difference]


def arguments(parser: ArgumentParser) -> None:
    add_turn_argument(parser)


def run(args: Namespace) -> int:
    settings = settings_from(args)
    story = find_turn(settings, args.turn)
    logging.getLogger("finclaw").addHandler(logging.NullHandler())  # what went wrong is in the differences
    logging.getLogger("finclaw").propagate = False
    found = replay(settings, story)
    done = Replayed(turn_id=story.record.turn_id, identical=not found, differences=found)
    print(json_line(done) if args.json else _format_text(story, found))
    return DIFFERENT if found else SAME


def replay(settings: Settings, story: TurnTrace, extensions: Sequence[Extension] = ()) -> list[Difference]:
    """Where the turn parts from its record now; nothing if it does not. Raises ConfigError when it cannot be run."""
    _must_be_replayable(story)
    clock = FakeClock(story.before[0].created_at if story.before else story.accepted_at)
    recording = Recording(story, clock)
    with TemporaryDirectory(prefix="finclaw-replay-") as place, block_network():
        aside = replace(settings, state=Path(place), storage=StorageSettings(), agent=_pin_model(settings, story))
        again = clock.run(_run_again(aside, story, recording, extensions, clock))
    return differences(story, again, recording.given)


def _pin_model(settings: Settings, story: TurnTrace) -> AgentSettings:
    """The record answers for whomever was asked then, and there is nobody else to ask when it fails as it did."""
    wishes = (story.inbound.limits and story.inbound.limits.wishes) or story.inbound.wishes
    recorded: dict[str, Any] = story.messages[0].metadata.get(OPTIONS, {}) if story.messages else {}
    picked = (wishes.model if wishes else None) or recorded.get("model")
    return replace(settings.agent, model=picked or settings.agent.model, fallbacks=())


def _must_be_replayable(story: TurnTrace) -> None:
    turn = story.record.turn_id
    if story.record.ended_at is None:
        raise ConfigError(f"{turn} has not ended yet; wait until it has, or look at it with: finclaw trace {turn}")
    if condensed := condensed_steps(story):
        raise ConfigError(
            f"{turn}: {condensed} of its {plural(story.record.steps, 'step')} were condensed into a summary while it "
            f"ran, and what the model said in them is not recorded; what is left shows: finclaw trace {turn}"
        )
    if story.record.status == "undone":
        raise ConfigError(f"{turn} was taken back by /undo or /retry; `finclaw turns` lists others")
    if not story.whole:
        raise ConfigError(
            f"{turn} is not all there any more: its conversation was reset or shortened since; "
            "`finclaw turns` lists others"
        )
    if story.outcome is not None and story.outcome.kind == "stopped" and not ran_out_of_time(story.outcome):
        raise ConfigError(
            f"{turn} was stopped from outside ({story.outcome.reason}); only a turn's own end comes again"
        )


async def _run_again(
    settings: Settings, story: TurnTrace, recording: Recording, extensions: Sequence[Extension], clock: FakeClock
) -> TurnTrace:
    accepted = await _prepare_store(settings, story, clock)
    async with build(
        settings,
        channels=[MailboxChannel(story.inbound.channel)],
        provider=recording,
        extensions=[*extensions, recording],
        clock=clock,
        threaded=False,
    ) as app:
        message = await app.wait(accepted.id, float("inf"))
        return await app.turn(accepted.id) or _without_turn(story, message.outcome if message else None)


def _without_turn(story: TurnTrace, outcome: Outcome | None) -> TurnTrace:
    """The pipeline ended before the agent this time."""
    record = structs.replace(story.record, status="not begun", steps=0)
    return structs.replace(story, record=record, outcome=outcome, messages=())


async def _prepare_store(settings: Settings, story: TurnTrace, clock: FakeClock) -> Accepted:
    """The session, the message and the beginning of the turn, each at its own time."""
    store = open_store(settings.state / DATABASE, clock, threaded=False)
    try:
        await store.restore(story.record.session, story.before)
        clock.jump(story.accepted_at - clock.now())
        accepted = await store.accept(story.inbound, story.record.session, _ignore_accepted)
    finally:
        await store.close()
    clock.jump(story.record.started_at - clock.now())
    return accepted


def _ignore_accepted(_: Accepted) -> None:
    """Takes the message up yet."""


def _format_text(story: TurnTrace, found: Sequence[Difference]) -> str:
    steps = plural(story.record.steps, "step")
    if not found:
        return f"{story.record.turn_id}: identical ({steps})"
    lines = [f"{story.record.turn_id}: {plural(len(found), 'difference')} ({steps})"]
    for each in found:
        lines += ["", each.part, *(f"  {clean(redact_for_display(line))}" for line in each.lines())]
    return "\n".join(lines)


# ── block on network access: every connection and name lookup fails at once, also to this machine ───────────────


_REACHES = ("socket.connect", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo", "socket.gethostbyname")


@contextmanager
def block_network() -> Generator[None]:
    """By an audit hook, which the interpreter itself calls: no library gets around it. Child processes are not held."""
    inside = True

    def refuse(event: str, _: tuple[Any, ...]) -> None:
        if inside and event in _REACHES:
            raise OSError("a replay reaches no network")

    sys.addaudithook(refuse)  # it cannot be taken away again; behind the block it does nothing
    try:
        yield
    finally:
        inside = False
