"""Stage 3: names, aliases and roles."""

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from finclaw.builtins.basics import BasicCommand
from finclaw.errors import ExtensionError
from finclaw.kernel.envelope import Inbound, Outbound, Sender
from finclaw.kernel.port import CommandReply, CommandScope
from finclaw.kernel.record import Accepted
from finclaw.pipeline.command import Commands
from finclaw.pipeline.gate import normalize
from finclaw.pipeline.stage import Halt

scopes: list[CommandScope] = []


async def answer(args: Sequence[str], scope: CommandScope) -> CommandReply:
    scopes.append(scope)
    return CommandReply("|".join(args), ephemeral=True)


def command(name: str, *aliases: str, roles: tuple[str, ...] = ()) -> BasicCommand:
    return BasicCommand(name=name, aliases=aliases, description="", usage="", answer=answer, roles=roles)


async def ask(commands: Commands, text: str) -> Halt | None:
    inbound = Inbound(text=text, message_id="m", thread="t", sender=Sender("ada", roles=("dev",)))

    async def no_wait() -> None:
        raise AssertionError("only a command that says so waits in its lane")

    message = normalize(inbound)
    accepted = Accepted(
        id="in-1", session="s-1", ticket=1, inbound=inbound, accepted_at=datetime(2026, 1, 2, tzinfo=UTC)
    )
    try:
        await commands.answer(message, inbound.sender, accepted, lambda: (message, inbound.sender), no_wait)
    except Halt as halt:
        return halt
    return None


@pytest.mark.spec("P-27", "C-11", "P-46")
async def test_row_11_found_by_name_and_alias_whatever_the_case() -> None:
    commands = Commands("/", [command("price", "p", "주가")])
    for line in ("/price AAPL TSLA", "/P AAPL TSLA", "/주가 AAPL\nTSLA"):
        halt = await ask(commands, line)
        assert halt is not None
        assert (halt.kind, halt.outcome, halt.reason) == ("skip", "command", "answered by /price")
        assert halt.reply == Outbound(text="AAPL|TSLA", kind="notice", reply_to="m", thread="t", ephemeral=True)
    assert (scopes[-1].session, scopes[-1].sender.id) == ("s-1", "ada")


@pytest.mark.spec("C-08")
@pytest.mark.parametrize("line", ["/unknown", "/", "price AAPL", "//price", "/priceAAPL", "!price"])
async def test_row_11_anything_else_passes(line: str) -> None:
    assert await ask(Commands("/", [command("price")]), line) is None


async def test_the_prefix_may_be_longer() -> None:
    commands = Commands("fin!", [command("price")])
    assert await ask(commands, "fin!price") is not None
    assert await ask(commands, "/price") is None


async def test_one_of_the_roles_is_enough() -> None:
    commands = Commands("/", [command("a", roles=("admin",)), command("b", roles=("admin", "dev"))])
    refused, allowed = await ask(commands, "/a"), await ask(commands, "/b")
    assert refused is not None
    assert allowed is not None
    assert (refused.outcome, allowed.outcome) == ("refused", "command")
    assert refused.reply is not None
    assert (refused.reply.text, refused.reply.ephemeral) == ("/a is for admin only.", True)


@pytest.mark.parametrize("other", [command("PRICE"), command("x", "price"), command("x", "p")])
def test_row_11_a_name_is_taken_once(other: BasicCommand) -> None:
    with pytest.raises(ExtensionError, match="is taken"):
        Commands("/", [command("price", "p"), other])
