"""`finclaw replay`: run a recorded turn again in a gateway of its own, offline, and show what comes out differently.

The settings, extensions and layers are today's; the model's answers and the tools' results are the recorded ones.
The message is laid into a throw-away state as if a gateway had stopped right after accepting it, and a gateway in
virtual time takes it up there.
"""

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

from finclaw.agent.window.compaction.options import is_summary
from finclaw.channels.mailbox import MailboxChannel
from finclaw.cli.arguments import add_turn_argument, settings_from
from finclaw.cli.attach import attach, find_turn
from finclaw.cli.formatting import clean, plural, print_result
from finclaw.cli.recording import Recording, own_blocks, ran_out_of_time
from finclaw.composition.gateway import build
from finclaw.config.schema import Settings, StorageSettings
from finclaw.diagnostics.log import silence_logging
from finclaw.errors import ConfigError
from finclaw.kernel.envelope import OPTIONS
from finclaw.kernel.extension import Extension
from finclaw.kernel.message import Image, Message, Text, Thinking, ToolCall, ToolResult
from finclaw.kernel.record import Accepted, TurnTrace
from finclaw.redaction.redact import redact_for_display
from finclaw.storage.sqlite.database import DATABASE
from finclaw.storage.sqlite.store import open_store
from finclaw.testing.clock import FakeClock

# ── differences between two runs of one turn: named parts of text, and a diff of every part that differs ────────


Arguments = Mapping[str, Mapping[str, Any]]  # with which each call reached its tool, by the call's id


class Difference(Struct, frozen=True):
    """One part of the turn, as it is in the record and as it comes out now; None where it is not there at all."""

    part: str
    recorded: str | None
    now: str | None

    def lines(self) -> Iterator[str]:
        then, now = ([] if text is None else text.splitlines() or [""] for text in (self.recorded, self.now))
        yield from unified_diff(then, now, "recorded", "now", lineterm="", n=2)


def differences(recorded: TurnTrace, now: TurnTrace, given: Arguments) -> list[Difference]:
    """In the order of the turn. `given` is what the tools were given now."""
    ends = _compare_parts(_end_parts(recorded), _end_parts(now))
    if not now.messages:  # no turn came of it: what the agent would have done is beside the point
        return ends
    return _compare_parts(_run_parts(recorded, recorded_arguments(recorded)), _run_parts(now, given)) + ends


def _compare_parts(then: Mapping[str, str], now: Mapping[str, str]) -> list[Difference]:
    every = [Difference(name, then.get(name), now.get(name)) for name in dict.fromkeys((*then, *now))]
    return [each for each in every if each.recorded != each.now]


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
    if (outcome := story.outcome) is not None:
        end["outcome"] = f"{outcome.kind} {outcome.reason}".strip()
        if outcome.kind == "joined":  # its turn answers a later message
            end["outcome"] = "answered"
        end["reply"] = outcome.reply or ""
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
    error = [] if result.error is None else [result.error]
    return "\n".join([result.status, result.content, *map(_json, error), *map(_json, result.facts)])


def _json(value: object) -> str:
    return msgspec.json.encode(value, order="sorted").decode()


def arguments(parser: ArgumentParser) -> None:
    add_turn_argument(parser)


def run(args: Namespace) -> int:
    settings = settings_from(args)
    with attach(settings) as client:
        story = find_turn(client, settings, args.turn)
    silence_logging()  # what went wrong is in the differences
    found = replay(settings, story)
    view = {"turn_id": story.record.turn_id, "identical": not found, "differences": found}
    print_result(args, view, _format_lines(story, found))
    return int(bool(found))


def replay(settings: Settings, story: TurnTrace, extensions: Sequence[Extension] = ()) -> list[Difference]:
    """Where the turn parts from its record now; nothing if it does not. Raises ConfigError when it cannot be run."""
    _must_be_replayable(story)
    clock = FakeClock(next((message.created_at for message in story.before), story.accepted_at))
    recording = Recording(story, clock)
    with TemporaryDirectory(prefix="finclaw-replay-") as place, block_network():
        # The record answers for whomever was asked then, and there is nobody else to ask when it fails as it did.
        agent = replace(settings.agent, model=_find_model(story) or settings.agent.model, fallbacks=())
        aside = replace(settings, state=Path(place), storage=StorageSettings(), agent=agent)
        again = clock.run(_run_again(aside, story, recording, extensions, clock))
    return differences(story, again, recording.given)


def _find_model(story: TurnTrace) -> str | None:
    wishes = (story.inbound.limits and story.inbound.limits.wishes) or story.inbound.wishes
    if wishes and wishes.model:
        return wishes.model
    return story.messages[0].metadata.get(OPTIONS, {}).get("model") if story.messages else None


def _must_be_replayable(story: TurnTrace) -> None:
    turn = story.record.turn_id
    if story.record.ended_at is None:
        raise ConfigError(f"{turn} has not ended yet; wait until it has, or look at it with: finclaw trace {turn}")
    if condensed := _condensed_steps(story):
        raise ConfigError(
            f"{turn}: {condensed} of its {plural(story.record.steps, 'step')} were condensed into a summary while it "
            f"ran, and what the model said in them is not recorded; what is left shows: finclaw trace {turn}"
        )
    if story.record.status == "undone":
        raise ConfigError(f"{turn} was taken back by /undo or /retry; `finclaw turns` lists others")
    if not story.whole:
        why = "is not all there any more: its conversation was reset or shortened since"
        raise ConfigError(f"{turn} {why}; `finclaw turns` lists others")
    if story.outcome is not None and story.outcome.kind == "stopped" and not ran_out_of_time(story.outcome):
        why = story.outcome.reason
        raise ConfigError(f"{turn} was stopped from outside ({why}); only a turn's own end comes again")


def _condensed_steps(story: TurnTrace) -> int:
    """How many of its own steps the turn made a summary of while it ran; a later turn's doing is not its own."""
    ended = story.record.ended_at
    if not any(is_summary(each) and (ended is None or each.created_at <= ended) for each in story.messages):
        return 0
    return story.record.steps - sum(message.source.kind == "assistant" for message in story.messages)


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
        turn = await app.turn(accepted.id)
    if turn is not None:
        return turn
    # The pipeline ended before the agent this time.
    record = structs.replace(story.record, status="not begun", steps=0)
    return structs.replace(story, record=record, outcome=message and message.outcome, messages=())


async def _prepare_store(settings: Settings, story: TurnTrace, clock: FakeClock) -> Accepted:
    store = open_store(settings.state / DATABASE, clock, threaded=False)
    try:
        await store.restore(story.record.session, story.before)
        clock.jump(story.accepted_at - clock.now())
        accepted = await store.accept(story.inbound, story.record.session, lambda _: None)
    finally:
        await store.close()
    clock.jump(story.record.started_at - clock.now())
    return accepted


def _format_lines(story: TurnTrace, found: Sequence[Difference]) -> Iterator[str]:
    result = plural(len(found), "difference") if found else "identical"
    yield f"{story.record.turn_id}: {result} ({plural(story.record.steps, 'step')})"
    for difference in found:
        yield ""
        yield difference.part
        yield from (f"  {clean(redact_for_display(line))}" for line in difference.lines())


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
