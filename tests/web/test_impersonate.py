"""Whose roles a message with a label has: the token's where the operator says that its holder vouches for labels."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from finclaw.approvals.people import PersonSettings
from finclaw.builtins.basics import BasicCommand
from finclaw.channels.mailbox import MailboxChannel
from finclaw.composition.gateway import build
from finclaw.config.schema import Settings
from finclaw.kernel.extension import ExtensionApi
from finclaw.kernel.port import CommandReply, CommandScope
from finclaw.testing import FakeClock
from finclaw.web.principal import OWNER, MessageBody, inbound
from finclaw.web.settings import WebServerSettings


class Roles:
    """A command that says what its sender is here."""

    name = "roles"

    def register(self, api: ExtensionApi) -> None:
        api.commands.register(BasicCommand(name="roles", description="", usage="", answer=self._answer))

    async def _answer(self, args: Sequence[str], scope: CommandScope) -> CommandReply:
        return CommandReply(f"roles: {', '.join(scope.sender.roles)}")


ALICE = PersonSettings(name="Alice", known_as=("web:owner:owner/alice",), roles=("trader",))
MACHINE = PersonSettings(name="machine", known_as=("web:owner:owner",), roles=("operator",))


@pytest.mark.parametrize(
    ("impersonate", "people", "label", "roles"),
    [
        (False, (), None, "owner"),
        (False, (), "bob", ""),
        (True, (), "bob", "owner"),
        (True, (MACHINE,), "bob", "operator"),
        (True, (ALICE,), "alice", "trader"),
        (False, (ALICE,), "alice", "trader"),
        (False, (MACHINE,), None, "operator"),
    ],
)
def test_the_roles_of_a_label(
    tmp_path: Path, impersonate: bool, people: tuple[PersonSettings, ...], label: str | None, roles: str
) -> None:
    settings = Settings(state=tmp_path, people=people, web=WebServerSettings(impersonate=impersonate))
    clock = FakeClock()

    async def walk() -> str | None:
        doors = [MailboxChannel("web")]
        async with build(settings, channels=doors, extensions=[Roles()], clock=clock, threaded=False) as app:
            said = inbound(OWNER, MessageBody(message_id="1", text="/roles", sender=label))
            return (await app.handle(said)).reply

    assert clock.run(walk()) == f"roles: {roles}".strip()


@pytest.mark.spec("DX-22")
def test_a_label_is_no_approver_by_the_tokens_roles(tmp_path: Path) -> None:
    """The token's holder vouches for who asks; who decides about others' money is named in the settings."""
    settings = Settings(state=tmp_path, web=WebServerSettings(impersonate=True))
    assert "web:owner:owner/bob" not in settings.everybody().who("role:owner")
