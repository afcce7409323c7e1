"""The commands every gateway has."""

from collections.abc import Sequence

import pytest

from finclaw.builtins.basics import BasicCommand, Basics
from finclaw.diagnostics.event_stream import EventStream
from finclaw.extensions.registrar import Registrar
from finclaw.gateway import StopReport, StopRequest
from finclaw.kernel.envelope import Inbound, Sender
from finclaw.kernel.extension import ExtensionApi
from finclaw.kernel.port import CommandReply, CommandScope, names_of

forgotten: list[str] = []


async def forget(session: str) -> None:
    forgotten.append(session)


async def nothing(args: Sequence[str], scope: CommandScope) -> CommandReply:
    return CommandReply("")


class Auditing:
    name = "auditing"

    def register(self, api: ExtensionApi) -> None:
        command = BasicCommand(
            name="audit", description="Looks closely", usage="!audit", answer=nothing, roles=("admin",)
        )
        api.commands.register(command)


async def stop(request: StopRequest) -> StopReport:
    return StopReport()


@pytest.fixture
def registrar() -> Registrar:
    registrar = Registrar(EventStream())
    registrar.load([Basics("!", lambda: registrar.commands, forget, stop, 365), Auditing()])
    return registrar


async def run(registrar: Registrar, name: str, *args: str, roles: tuple[str, ...] = ()) -> CommandReply:
    command = next(each for each in registrar.commands if name in names_of(each))
    sender = Sender("u-1", "Ada", roles)
    return await command.run(args, CommandScope(inbound=Inbound(text="x"), session="s-1", sender=sender))


async def test_help_lists_what_this_person_may_do(registrar: Registrar) -> None:
    reply = await run(registrar, "help")
    *lines, last = reply.text.splitlines()
    assert [line.split(" – ")[0] for line in lines] == ["!help", "!whoami", "!stop", "!reset"]
    assert last == "!help NAME explains one of them."
    assert reply.ephemeral
    assert "!audit" in (await run(registrar, "도움말", roles=("admin",))).text


async def test_help_about_one_command(registrar: Registrar) -> None:
    assert (await run(registrar, "help", "!clear")).text.splitlines() == [
        "!reset",
        "Forgets this conversation and starts anew",
        "also: clear, 초기화",
    ]
    assert (await run(registrar, "help", "WHOAMI")).text.splitlines()[0] == "!whoami"
    for hidden in ("audit", "dance"):
        assert (await run(registrar, "help", hidden)).text == f"There is no !{hidden} here."


async def test_whoami_tells_what_the_channel_authenticated(registrar: Registrar) -> None:
    assert (await run(registrar, "whoami", roles=("admin", "owner"))).text == "Ada (api:local:u-1), roles: admin, owner"
    assert (await run(registrar, "whoami")).text == "Ada (api:local:u-1), roles: none"


async def test_reset_forgets_exactly_this_session(registrar: Registrar) -> None:
    forgotten.clear()
    reply = await run(registrar, "초기화")
    assert forgotten == ["s-1"]
    assert not reply.ephemeral


async def test_reset_says_what_it_keeps_and_how_to_erase_it_in_both_languages(registrar: Registrar) -> None:
    """User trial B6: `/reset` "forgets", but the question, the reply and the trace stay."""
    told = (await run(registrar, "reset")).text
    assert told.count("finclaw sessions delete s-1") == 2
    assert "stays on record" in told
    assert "older than 365 days" in told
    assert "기록에는 남아 있습니다" in told
    assert "365일" in told
