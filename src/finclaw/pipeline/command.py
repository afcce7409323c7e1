"""Stage 3, commands: lines that the gateway answers itself.

What it does not know goes on to the agent as ordinary text.
"""

import logging
import math
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from msgspec.structs import replace

from finclaw.errors import ExtensionError
from finclaw.kernel.clock import SystemClock
from finclaw.kernel.envelope import Outbound, Sender
from finclaw.kernel.port import Clock, Command, CommandReply, CommandScope, names_of
from finclaw.kernel.scope import OutcomeKind
from finclaw.kernel.text import Language, language_of
from finclaw.pipeline.journal import Halt, skip
from finclaw.pipeline.normalize import NormalMessage
from finclaw.pipeline.persons import PersonDirectory
from finclaw.tools.outbound_files import PutBlob, keep_files

log = logging.getLogger(__name__)

Admitted = tuple[NormalMessage, Sender]


MOST_COOLDOWNS: Final = 10_000
_WAIT: Final[dict[Language, str]] = {
    "en": "{0} can be used again in {1} s.",
    "ko": "{0} 명령은 {1}초 뒤에 다시 쓸 수 있습니다.",
}


_DISABLED: Final[dict[Language, str]] = {
    "en": "{0} is switched off here.",
    "ko": "{0} 명령은 여기서 꺼져 있습니다.",
}


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
        now, key = self._clock.monotonic(), (command.name, person)
        if (left := self._ends.get(key, now) - now) > 0:
            return math.ceil(left)
        if len(self._ends) >= MOST_COOLDOWNS:
            self._ends = {each: end for each, end in self._ends.items() if end > now}
        self._ends[key] = now + seconds
        return 0


class Commands:
    """The stage that answers commands."""

    def __init__(
        self,
        prefix: str,
        commands: Iterable[Command],
        persons: PersonDirectory | None = None,
        clock: Clock | None = None,
        disabled: frozenset[str] = frozenset(),
        put_blob: PutBlob | None = None,
    ) -> None:
        """`put_blob` keeps the files that commands give; None: none go out."""
        self._disabled = disabled
        self._put_blob = put_blob
        self._cooldowns = CommandCooldowns(clock or SystemClock())
        self._prefix = prefix
        self._persons = persons or PersonDirectory()
        self._commands = tuple(commands)
        self._by_name: dict[str, Command] = {}
        for command in self._commands:
            for name in names_of(command):
                if name.casefold() in self._by_name:
                    raise ExtensionError(f"the command name {name!r} is taken; choose another name or alias")
                self._by_name[name.casefold()] = command

    def may_know(self, text: str) -> bool:
        """Whether this looks like a line for a command; only the stage itself can tell."""
        return text.lstrip().startswith(self._prefix)

    async def answer(
        self,
        message: NormalMessage,
        sender: Sender,
        session: str,
        as_accepted: Callable[[], Admitted],
        wait_in_lane: Callable[[], Awaitable[None]],
    ) -> None:
        """Raises Halt with the reply when the message is a command; returns when it is not.

        `as_accepted` is the message and its sender before any layer saw them, for commands that decide.
        `wait_in_lane` returns when the messages before it are answered, for commands that come in turn.
        """
        command, args = self._parse(message.content)
        if message.inbound.is_internal:  # only people type commands
            return
        if command is None:
            self._refuse_disabled(message)
            return
        if getattr(command, "decides", False):
            message, sender = as_accepted()
            if self._parse(message.content) != (command, args):
                log.warning(
                    "a message layer made a %s%s of another message; it was dropped", self._prefix, command.name
                )
                raise skip(f"{self._prefix}{command.name} is not what the person wrote")
        if command.roles and not set(command.roles) & set(sender.roles):
            needed = " or ".join(command.roles)
            refusal = CommandReply(f"{self._prefix}{command.name} is for {needed} only.", ephemeral=True)
            raise self._halt(message, refusal, "refused", f"the sender is not {needed}")
        person = self._persons.find(message.inbound)
        scope = CommandScope(inbound=message.inbound, session=session, sender=sender, person=person)
        required = [each for each in getattr(command, "arguments", ()) if each.required]
        if len(args) < len(required):
            raise self._halt(message, await self._explain(command, scope), "command", "an argument is missing")
        if seconds := self._cooldowns.begin(command, person.id):
            wait = _WAIT[language_of(message.inbound.text)].format(f"{self._prefix}{command.name}", seconds)
            refusal = CommandReply(wait, ephemeral=True)
            raise self._halt(message, refusal, "refused", f"used again {seconds} s too early")
        if getattr(command, "when", "now") == "in_lane":
            await wait_in_lane()
        reply = await command.run(args, scope)
        if reply.files and self._put_blob is not None:
            kept = await keep_files(self._put_blob, (*reply.attachments, *reply.files))
            reply = replace(reply, attachments=kept, files=())
        raise self._halt(message, reply, "command", f"answered by {self._prefix}{command.name}")

    def _refuse_disabled(self, message: NormalMessage) -> None:
        """Raises Halt: to a model it would be an order that it cannot carry out, and might say that it has."""
        typed = (message.content.split() or [""])[0]
        if typed.startswith(self._prefix) and typed.removeprefix(self._prefix).casefold() in self._disabled:
            words = _DISABLED[language_of(message.inbound.text)].format(typed)
            raise self._halt(message, CommandReply(words, ephemeral=True), "refused", f"{typed} is disabled")

    async def _explain(self, command: Command, scope: CommandScope) -> CommandReply:
        """What the help command says about it, where there is one."""
        helper = self._by_name.get("help")
        return (
            CommandReply(command.usage, ephemeral=True) if helper is None else await helper.run([command.name], scope)
        )

    def _parse(self, line: str) -> tuple[Command | None, list[str]]:
        if not line.startswith(self._prefix):
            return None, []
        name, *args = line.removeprefix(self._prefix).split() or [""]
        return self._by_name.get(name.casefold()), args

    @staticmethod
    def _halt(message: NormalMessage, reply: CommandReply, outcome: OutcomeKind, reason: str) -> Halt:
        outbound = Outbound(
            text=reply.text,
            kind=reply.kind,
            facts=reply.facts,
            attachments=reply.attachments,
            actions=reply.actions,
            reply_to=message.inbound.answer_to,
            thread=message.inbound.thread,
            ephemeral=reply.ephemeral,
        )
        return Halt("skip", reason, outcome=outcome, reply=outbound)
