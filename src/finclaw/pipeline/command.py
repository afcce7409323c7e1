"""Stage 3, commands: directives are read first, then lines that the gateway answers itself.

What it does not know goes on to the agent as ordinary text.
"""

import logging
import math
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from finclaw.clock import SystemClock
from finclaw.commands.directives import DirectiveLine, Directives, apply_options
from finclaw.commands.registry import MOST_ARGUMENTS, CommandRegistry, ParsedCommand
from finclaw.commands.words import join_roles, say
from finclaw.errors import FinclawError
from finclaw.kernel.chunk import Model
from finclaw.kernel.envelope import Inbound, Outbound, Sender
from finclaw.kernel.port import Clock, Command, CommandReply, CommandScope, LayerCommand
from finclaw.kernel.record import Accepted
from finclaw.kernel.scope import OutcomeKind
from finclaw.pipeline.gate import NormalMessage, normalize, tidy
from finclaw.pipeline.persons import PersonDirectory
from finclaw.pipeline.stage import Halt, skip
from finclaw.redaction.redact import describe_error
from finclaw.sessions.carried_over import KeptOptions
from finclaw.taint.sources import is_typed
from finclaw.tools.outbound_files import PutBlob, keep_files

log = logging.getLogger(__name__)

Admitted = tuple[NormalMessage, Sender]
STOP: Final = "stop"
MOST_COOLDOWNS: Final = 10_000
_TAGS: Final = re.compile(r"\s*(?:<@!?[\w.:-]{1,128}>\s*)*")
_MENTIONS: Final = re.compile(r"\s*(?:<@!?[\w.:-]{1,128}>\s*|@[\w.-]{1,64}[,:]?\s+)+")
"""Mentions in front of a command: tags as platforms write them, and names as people do."""
_MISSPELLED: Final = re.compile(r"[^\W\d_][\w-]{2,31}")
"""What can be the misspelled name of a command; a path such as usr/bin cannot."""
_LONGEST_MISSPELLED: Final = 200
"""Characters of a line with one; a longer one is a text for the model."""


class CommandCooldowns:
    """Times before which a person may not use a command again. A restart forgets them."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ends: dict[tuple[str, str], float] = {}

    def begin(self, command: Command, person: str) -> int:
        """0: it may be used, and its time runs from now on; else the seconds until it may."""
        seconds = getattr(command, "cooldown", 0.0)
        if not seconds:
            return 0
        now = self._clock.monotonic()
        key = (command.name, person)
        left = self._ends.get(key, now) - now
        if left > 0:
            return math.ceil(left)
        if len(self._ends) >= MOST_COOLDOWNS:
            self._ends = {each: end for each, end in self._ends.items() if end > now}
        self._ends[key] = now + seconds
        return 0


class CommandServices(Struct, frozen=True, kw_only=True):
    persons: PersonDirectory = field(default_factory=PersonDirectory)
    clock: Clock = field(default_factory=SystemClock)
    put_blob: PutBlob | None = None  # keeps the files that commands give; None: none go out
    options: KeptOptions | None = None
    find_model: Callable[[str | None], Model] | None = None
    """The model of a name, or the usual one. Raises ModelUnknown."""
    layer_commands: Callable[[], Mapping[str, LayerCommand]] = dict[str, LayerCommand]
    directive_roles: Mapping[str, Sequence[str]] = {}
    disabled: frozenset[str] = frozenset()
    suggest: bool = True


class Commands:
    def __init__(self, prefix: str, commands: Iterable[Command], services: CommandServices | None = None) -> None:
        self._have = have = services or CommandServices()
        self._cooldowns = CommandCooldowns(have.clock)
        self._prefix = prefix
        self.registry = CommandRegistry(commands)
        self._directives = Directives(self.registry, prefix, have.options, have.find_model, have.directive_roles)

    def may_know(self, text: str) -> bool:
        """Whether this looks like a line for a command; only the stage itself can tell."""
        line = text.strip()
        if line.startswith(("@", "<@")) and self._prefix in line:
            return True
        return line.startswith(self._prefix) or self.registry.parse(line, self._prefix) is not None

    def is_stop(self, inbound: Inbound) -> bool:
        """Whether this message stops what runs: it waits for nothing, and a full conversation takes it."""
        if inbound.kind not in ("message", "action") or not is_typed(inbound):
            return False
        parsed = self._parse_accepted(inbound)
        if parsed is None:
            return False
        command = self.registry.get(parsed.name)
        return command is not None and command.name == STOP

    async def answer(
        self,
        message: NormalMessage,
        sender: Sender,
        accepted: Accepted,
        as_accepted: Callable[[], Admitted],
        wait_in_lane: Callable[[], Awaitable[None]],
    ) -> NormalMessage:
        """Raises Halt with the reply when the message is a command; else gives the message without its directives.

        `as_accepted` is the message and its sender before any layer saw them, for commands that decide.
        `wait_in_lane` returns when the messages before it are answered, for commands that come in turn.
        """
        inbound = message.inbound
        start = self._find_start(message.content, inbound)
        if not is_typed(inbound):
            return message
        if start is None and self.registry.parse(message.content, self._prefix) is None:
            return message
        person = self._have.persons.find(inbound)
        scope = CommandScope(inbound=inbound, session=accepted.session, sender=sender, person=person, accepted=accepted)
        if start is not None:
            message, scope = await self._read_front(start, message, scope, wait_in_lane)
        parsed = self.registry.parse(message.content, self._prefix)
        if parsed is not None:
            await self._run(parsed, message, scope, as_accepted, wait_in_lane)
        self._check_unknown(message, scope)
        return message

    async def _read_front(
        self, start: int, message: NormalMessage, scope: CommandScope, wait_in_lane: Callable[[], Awaitable[None]]
    ) -> tuple[NormalMessage, CommandScope]:
        """The message without mentions and directives in front of a command."""
        if message.content.startswith("@"):
            message = replace(message, content=tidy(message.inbound.text[start:]))
        line = self._directives.parse(message.inbound.text, start)
        if line is not None:
            message = await self._apply_directives(line, message, scope, wait_in_lane)
            scope = replace(scope, inbound=message.inbound)
        return message, scope

    def _find_start(self, content: str, inbound: Inbound) -> int | None:
        """Where the prefix is: in front, or behind mentions. None: it is not there, so this is no command."""
        if content.startswith(self._prefix):
            found = _TAGS.match(inbound.text)
        elif content.startswith("@") and (inbound.mentions_us or inbound.chat_type == "direct"):
            found = _MENTIONS.match(inbound.text)
        else:
            return None
        start = 0 if found is None else found.end()
        return start if inbound.text.startswith(self._prefix, start) else None

    async def _apply_directives(
        self,
        line: DirectiveLine,
        message: NormalMessage,
        scope: CommandScope,
        wait_in_lane: Callable[[], Awaitable[None]],
    ) -> NormalMessage:
        """The message without its directives. Raises Halt for one that is not allowed, and for directives alone."""
        inbound = message.inbound
        alone = line.rest == len(inbound.text) and not inbound.attachments
        names = ", ".join(f"{self._prefix}{each.command.name}" for each in line.given)
        objection = self._directives.find_objection(line.given, scope, alone=alone)
        if objection is not None:
            raise _refuse(message, objection, f"{names} is not allowed")
        for each in line.given:
            self._begin_cooldown(each.command, message, scope)
        if not alone:
            wishes = apply_options(inbound.wishes, line.given)
            return normalize(replace(inbound, text=inbound.text[line.rest :], wishes=wishes))
        if any(getattr(each.command, "when", "now") == "in_lane" for each in line.given):
            await wait_in_lane()
        told = await self._directives.keep(line.given, scope)
        raise _halt(message, CommandReply(told), "command", f"answered by {names}")

    async def _run(
        self,
        parsed: ParsedCommand,
        message: NormalMessage,
        scope: CommandScope,
        as_accepted: Callable[[], Admitted],
        wait_in_lane: Callable[[], Awaitable[None]],
    ) -> None:
        """Raises Halt with the answer of the command, or with why there is none."""
        command = self.registry.get(parsed.name)
        assert command is not None
        shown = f"{self._prefix}{command.name}"
        if getattr(command, "decides", False):
            message, sender = as_accepted()
            if self._parse_accepted(message.inbound) != parsed:
                log.warning("a message layer made a %s of another message; it was dropped", shown)
                raise skip(f"{shown} is not what the person wrote")
            inbound = replace(message.inbound, language=scope.inbound.language)
            scope = replace(scope, inbound=inbound, sender=sender)
        self._check_roles(shown, command.roles, message, scope)
        if parsed.is_too_long:
            told = say("too_long", scope.language, shown, f"{MOST_ARGUMENTS:,}")
            raise _refuse(message, told, f"the arguments of {shown} are too long")
        required = [each for each in getattr(command, "arguments", ()) if each.required]
        if len(parsed.args) < len(required):
            raise _halt(message, await self._explain(command, scope), "command", "an argument is missing")
        self._begin_cooldown(command, message, scope)
        if getattr(command, "when", "now") == "in_lane":
            await wait_in_lane()
        reply = await self._execute(parsed, shown, message, scope)
        raise _halt(message, reply, "command", f"answered by {shown}")

    def _parse_accepted(self, inbound: Inbound) -> ParsedCommand | None:
        """The command in a message as it was accepted, with mentions and directives in front of it."""
        content = tidy(inbound.text)
        start = self._find_start(content, inbound)
        if start is not None:
            line = self._directives.parse(inbound.text, start)
            content = tidy(inbound.text[start if line is None else line.rest :])
        return self.registry.parse(content, self._prefix)

    async def _execute(
        self, parsed: ParsedCommand, shown: str, message: NormalMessage, scope: CommandScope
    ) -> CommandReply:
        try:
            reply = await self.registry.execute(parsed, scope)
        except (FinclawError, Halt):
            raise  # the pipeline has a notice for each of ours, and an outcome for an end on purpose
        except Exception as error:  # a command of an extension is a stranger's, and the person is told of its failure
            log.exception("the command %s failed", shown)
            told = CommandReply(say("failed", scope.language, shown), ephemeral=True)
            raise _halt(message, told, "failed", f"{shown} failed: {describe_error(error)}") from error
        if reply.files and self._have.put_blob is not None:
            kept = await keep_files(self._have.put_blob, (*reply.attachments, *reply.files))
            return replace(reply, attachments=kept, files=())
        return reply

    def _check_roles(self, shown: str, roles: Sequence[str], message: NormalMessage, scope: CommandScope) -> None:
        if roles and not set(roles) & set(scope.sender.roles):
            told = say("roles", scope.language, shown, join_roles(roles, scope.language))
            raise _refuse(message, told, f"the sender is not {' or '.join(roles)}")

    def _begin_cooldown(self, command: Command, message: NormalMessage, scope: CommandScope) -> None:
        if seconds := self._cooldowns.begin(command, scope.person.id):
            told = say("wait", scope.language, f"{self._prefix}{command.name}", seconds)
            raise _refuse(message, told, f"used again {seconds} s too early")

    async def _explain(self, command: Command, scope: CommandScope) -> CommandReply:
        helper = self.registry.get("help")
        if helper is None:
            return CommandReply(command.usage, ephemeral=True)
        return await helper.run([command.name], scope)

    def _check_unknown(self, message: NormalMessage, scope: CommandScope) -> None:
        """Raises Halt for a command that is disabled, misspelled, or a layer's for others: no model may answer it."""
        line = message.content
        shown = line.partition(" ")[0]
        name = shown.removeprefix(self._prefix).casefold()
        if not line.startswith(self._prefix):
            return
        if name in self._have.disabled:
            raise _refuse(message, say("disabled", scope.language, shown), f"{shown} is disabled")
        layers = {each.casefold(): about for each, about in self._have.layer_commands().items()}
        if name in layers:
            self._check_roles(shown, layers[name].roles, message, scope)
        elif self._have.suggest and len(line) <= _LONGEST_MISSPELLED and _MISSPELLED.fullmatch(name):
            meant = self.registry.find_similar(name, layers, scope.sender.roles)
            if meant is not None:
                told = say("similar", scope.language, f"{self._prefix}{name}", f"{self._prefix}{meant}")
                reply = CommandReply(told, ephemeral=True)
                raise _halt(message, reply, "command", f"there is no {self._prefix}{name}")


def _refuse(message: NormalMessage, told: str, reason: str) -> Halt:
    return _halt(message, CommandReply(told, ephemeral=True), "refused", reason)


def _halt(message: NormalMessage, reply: CommandReply, outcome: OutcomeKind, reason: str) -> Halt:
    inbound: Inbound = message.inbound
    outbound = Outbound(
        text=reply.text,
        kind=reply.kind,
        facts=reply.facts,
        embeds=reply.embeds,
        attachments=reply.attachments,
        actions=reply.actions,
        reply_to=inbound.answer_to,
        thread=inbound.thread,
        ephemeral=reply.ephemeral,
    )
    return Halt(reason, outcome=outcome, reply=outbound)
