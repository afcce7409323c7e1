"""Stage 3, commands: lines that the gateway answers itself.

What it does not know goes on to the agent as ordinary text.
"""

import logging
from collections.abc import Callable, Iterable

from finclaw.errors import ExtensionError
from finclaw.kernel.envelope import Outbound, Sender
from finclaw.kernel.port import Command, CommandReply, CommandScope
from finclaw.kernel.scope import OutcomeKind
from finclaw.pipeline.journal import Halt, skip
from finclaw.pipeline.normalize import NormalMessage
from finclaw.pipeline.persons import PersonDirectory

log = logging.getLogger(__name__)

Admitted = tuple[NormalMessage, Sender]


class Commands:
    """The stage that answers commands."""

    def __init__(self, prefix: str, commands: Iterable[Command], persons: PersonDirectory | None = None) -> None:
        self._prefix = prefix
        self._persons = persons or PersonDirectory()
        self._commands = tuple(commands)
        self._by_name: dict[str, Command] = {}
        for command in self._commands:
            for name in (command.name, *command.aliases):
                if name.casefold() in self._by_name:
                    raise ExtensionError(f"the command name {name!r} is taken; choose another name or alias")
                self._by_name[name.casefold()] = command

    def may_know(self, text: str) -> bool:
        """Whether this looks like a line for a command; only the stage itself can tell."""
        return text.lstrip().startswith(self._prefix)

    async def answer(
        self, message: NormalMessage, sender: Sender, session: str, as_accepted: Callable[[], Admitted]
    ) -> None:
        """Raises Halt with the reply when the message is a command; returns when it is not.

        `as_accepted` is the message and its sender before any layer saw them, for commands that decide.
        """
        command, args = self._parse(message.content)
        if command is None:
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
        reply = await command.run(args, scope)
        raise self._halt(message, reply, "command", f"answered by {self._prefix}{command.name}")

    def _parse(self, line: str) -> tuple[Command | None, list[str]]:
        if not line.startswith(self._prefix):
            return None, []
        name, *args = line.removeprefix(self._prefix).split() or [""]
        return self._by_name.get(name.casefold()), args

    @staticmethod
    def _halt(message: NormalMessage, reply: CommandReply, outcome: OutcomeKind, reason: str) -> Halt:
        outbound = Outbound(
            text=reply.text,
            kind="notice",
            reply_to=message.inbound.answer_to,
            thread=message.inbound.thread,
            ephemeral=reply.ephemeral,
        )
        return Halt("skip", reason, outcome=outcome, reply=outbound)
