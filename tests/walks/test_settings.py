"""Settings of commands and sessions, each by its effect on a gateway."""

from collections.abc import Sequence

import pytest
from tests.walks.house import House, in_virtual_time

from finclaw.builtins.basics import BasicCommand
from finclaw.errors import ConfigError
from finclaw.kernel.envelope import Inbound, Limits
from finclaw.kernel.port import CommandReply, CommandScope
from finclaw.pipeline.settings import CommandSettings, PipelineSettings
from finclaw.sessions.settings import SessionSettings
from finclaw.testing import SimulatedCrash

HOUR = 3_600


async def quote(args: Sequence[str], scope: CommandScope) -> CommandReply:
    return CommandReply(f"{args[0]} is at 190.5")


QUOTE = BasicCommand(
    name="tick", names={"ko": "체결가"}, description="Tells a price", usage="/tick SYMBOL", cooldown=30, answer=quote
)


@pytest.mark.spec("V-09")
@in_virtual_time
async def test_a_disabled_command_is_refused_under_every_name_and_no_model_is_asked(house: House) -> None:
    async with house.open("an answer", command_settings=CommandSettings(disabled=("Reset",))) as gateway:
        for typed, told in (
            ("/reset", "/reset is switched off here."),
            ("/CLEAR now", "/CLEAR is switched off here."),
            ("/초기화", "/초기화 명령은 여기서 꺼져 있습니다."),
        ):
            outcome = await gateway.ask(typed)
            assert (outcome.kind, outcome.reply) == ("refused", told)
        assert "reset" not in (await gateway.ask("/help")).reply  # pyright: ignore[reportOperatorIssue]
        assert "clear" not in gateway.app.known_commands()
        assert gateway.provider.requests == []
        assert (await gateway.ask("/resetting is a word")).reply == "an answer"


@pytest.mark.spec("V-09", "P-08")
@in_virtual_time
async def test_aliases_cooldowns_and_the_prefix_are_those_of_the_settings(house: House) -> None:
    wanted = CommandSettings(prefix="!", aliases={"체결가표": "tick"}, cooldown_s={"Tick": 5})
    async with house.open(commands=[QUOTE], command_settings=wanted) as gateway:
        assert (await gateway.ask("!체결가표 AAPL")).kind == "command"
        await gateway.ask("!language en")
        assert (await gateway.ask("!tick AAPL")).reply == "!tick can be used again in 5 s."
        house.clock.advance(5)
        assert (await gateway.ask("!tick AAPL")).kind == "command"
        assert "also: 체결가표, 체결가" in (await gateway.ask("!help tick")).reply  # pyright: ignore[reportOperatorIssue]
        assert "체결가표" in gateway.app.known_commands()


@in_virtual_time
async def test_the_older_name_of_the_prefix_still_works(house: House) -> None:
    async with house.open(pipeline=PipelineSettings(command_prefix="$")) as gateway:
        assert (await gateway.ask("$help")).kind == "command"


@pytest.mark.spec("V-09")
@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (
            CommandSettings(disabled=("rest",)),
            "commands.disabled names 'rest', which is no command; did you mean reset?",
        ),
        (CommandSettings(aliases={"x": "zzz"}), "commands.aliases names 'zzz', which is no command; there are help, "),
        (CommandSettings(aliases={"Clear": "help"}), "'Clear', a name of reset already; take another"),
        (
            CommandSettings(cooldown_s={"hepl": 1}),
            "cooldown_s names 'hepl', which is no command; did you mean",
        ),
    ],
)
@in_virtual_time
async def test_a_command_that_is_not_there_is_named_at_the_start(
    house: House, wanted: CommandSettings, said: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        async with house.open(command_settings=wanted):
            pass
    assert said in str(refused.value)


@pytest.mark.spec("V-09")
@in_virtual_time
async def test_a_person_who_was_silent_for_too_long_starts_anew(house: House) -> None:
    async with house.open("1", "2", "3", sessions=SessionSettings(idle_minutes=60)) as gateway:
        await gateway.ask("first")
        house.clock.advance(HOUR - 60)
        await gateway.ask("in time")
        assert [each.text for each in gateway.seen] == ["first", "1", "in time"]
        house.clock.advance(HOUR + 1)
        await gateway.ask("too late")
        assert [each.text for each in gateway.seen] == ["too late"]


@in_virtual_time
async def test_a_conversation_goes_on_for_ever_by_default(house: House) -> None:
    async with house.open("1", "2") as gateway:
        await gateway.ask("first")
        house.clock.advance(20 * 24 * HOUR)
        await gateway.ask("much later")
        assert len(gateway.seen) == 3


@in_virtual_time
async def test_what_nobody_wrote_renews_no_session(house: House) -> None:
    """A schedule may ask for a summary of what was said this week."""
    async with house.open("1", "2", sessions=SessionSettings(idle_minutes=60)) as gateway:
        first = await gateway.channel.write("first")
        await gateway.app.idle()
        house.clock.advance(5 * HOUR)
        task = Inbound(text="sum up", channel="memory", conversation=first.inbound.conversation, limits=Limits())
        await gateway.app.say(task, first.session)
        await gateway.app.idle()
        assert len(gateway.seen) == 3


@in_virtual_time
async def test_a_renewed_session_is_the_same_after_a_crash(house: House) -> None:
    limit = SessionSettings(idle_minutes=60)
    async with house.open("1", sessions=limit) as gateway:
        await gateway.ask("first")
    house.clock.advance(2 * HOUR)
    house.troubles["claim"] = [SimulatedCrash("before the turn")]
    async with house.open(sessions=limit) as gateway:
        await gateway.channel.write("anew", message_id="m")
        await gateway.app.idle()
    house.troubles.clear()
    async with house.open("2", "3", sessions=limit) as gateway:
        await gateway.app.idle()
        assert [each.text for each in gateway.seen] == ["anew"]
        await gateway.ask("and on")
        assert [each.text for each in gateway.seen] == ["anew", "2", "and on"]
