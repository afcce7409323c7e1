"""Commands in a whole gateway: who may use them, where they count, and that every refusal and failure is said."""

from collections.abc import Sequence

import pytest
from tests.walks.house import House, in_virtual_time

from finclaw.approvals.people import PersonSettings
from finclaw.builtins.basics import BasicCommand
from finclaw.kernel.envelope import Embed
from finclaw.kernel.port import CommandReply, CommandScope
from finclaw.pipeline.settings import CommandSettings

BOB = PersonSettings(name="Bob", known_as=("memory:local:bob",), roles=("admin",))


async def echo(args: Sequence[str], scope: CommandScope) -> CommandReply:
    return CommandReply("|".join(args))


async def fail(args: Sequence[str], scope: CommandScope) -> CommandReply:
    raise RuntimeError("the database of the extension is gone")


ECHO = BasicCommand(name="echo", description="Says it again / 따라 하기", usage="/echo …", answer=echo)
AUDIT = BasicCommand(
    name="audit", description="Looks closely / 감사", usage="/audit", answer=echo, roles=("admin",), category="admin"
)
BROKEN = BasicCommand(name="broken", description="Fails", usage="/broken", answer=fail)


@pytest.mark.spec("DX-11", "C-09")
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("/audit all", "/audit is for admin only."),
        ("/audit 전부 확인", "/audit 명령은 admin 역할이 있어야 쓸 수 있습니다."),
    ],
)
def test_roles_are_known_before_a_command_runs_and_a_refusal_is_said(house: House, text: str, words: str) -> None:
    async def walk() -> None:
        async with house.open(commands=[AUDIT], people=[BOB]) as gateway:
            refused = await gateway.ask(text)
            assert (refused.kind, refused.skipped_at, gateway.said) == ("refused", "command", [words])
            assert (await gateway.ask("/audit all", sender="bob")).reply == "all"
            assert not gateway.provider.requests

    house.clock.run(walk())


@pytest.mark.spec("DX-13", "C-12")
@in_virtual_time
async def test_help_shows_each_person_their_own_commands_by_category_in_their_language(house: House) -> None:
    async with house.open(commands=[ECHO, AUDIT], people=[BOB]) as gateway:
        english, boss = (await gateway.ask("/help")).reply or "", (await gateway.ask("/help", sender="bob")).reply or ""
        korean = (await gateway.ask("/도움말", sender="kim")).reply or ""
        assert "/audit" not in english
        assert (await gateway.ask("/help audit")).reply == "There is no /audit here."
        lines = boss.splitlines()
        assert lines.index("General:") < lines.index("/echo – Says it again") < lines.index("Administration:")
        assert lines[lines.index("Administration:") + 1] == "/audit – Looks closely"
        assert {"일반:", "/echo – 따라 하기"} <= set(korean.splitlines())
        assert (await gateway.ask("/help ecko")).reply == "There is no /ecko here. Did you mean /echo?"
        assert all(sent.unit.outbound.ephemeral for sent in gateway.channel.sent)


@pytest.mark.spec("DX-13")
@in_virtual_time
async def test_a_command_that_fails_says_so_and_the_next_one_works(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    async with house.open(commands=[BROKEN, ECHO]) as gateway:
        outcome = await gateway.ask("/broken")
        assert (outcome.kind, outcome.aborted_at) == ("failed", "command")
        assert gateway.said == ["/broken could not be carried out, because of an error. It is in the gateway's log."]
        assert "the command /broken failed" in caplog.text
        assert (await gateway.ask("/echo a")).reply == "a"


@pytest.mark.spec("DX-13")
@pytest.mark.parametrize("text", ["@finclaw /echo a b", "<@bot> /echo a b", "@finclaw, /echo a b", "<@bot>/echo a b"])
def test_mentions_in_front_are_skipped(house: House, text: str) -> None:
    async def walk() -> None:
        async with house.open(commands=[ECHO]) as gateway:
            assert (await gateway.ask(text, mentions_us=True, chat_type="group")).reply == "a|b"

    house.clock.run(walk())


@pytest.mark.spec("DX-13")
@pytest.mark.parametrize(
    "text",
    [
        "```\n/echo a\n```",
        "`/echo a`",
        "> /echo a",
        "please run:\n/echo a",
        "    /usr/bin/echo a",
        "<@bot> ```/echo a```",
    ],
)
def test_what_stands_in_a_fence_or_a_quote_stays_text(house: House, text: str) -> None:
    async def walk() -> None:
        async with house.open("ok", commands=[ECHO]) as gateway:
            assert (await gateway.ask(text)).kind == "answered"
            assert gateway.seen[-1].text == text

    house.clock.run(walk())


@in_virtual_time
async def test_a_forwarded_command_is_somebody_elses_words(house: House) -> None:
    async with house.open("ok", commands=[ECHO]) as gateway:
        assert (await gateway.ask("/echo a", forwarded=True)).kind == "answered"


@pytest.mark.spec("DX-12")
@in_virtual_time
async def test_a_near_miss_earns_a_suggestion_and_anything_else_reaches_the_model(house: House) -> None:
    async with house.open("one", "two", "three", commands=[ECHO, AUDIT]) as gateway:
        assert (await gateway.ask("/ehco a")).reply == "There is no /ehco. Did you mean /echo?"
        assert (await gateway.ask("/hlep 도와줘")).reply == "/hlep 명령은 없습니다. 혹시 /help 명령인가요?"
        assert not gateway.provider.requests
        for text in ("/weather in Seoul", "/srv/notes.txt is empty", "/audti"):  # the last is not theirs to know
            assert (await gateway.ask(text)).kind == "answered"
            assert gateway.seen[-1].text == text
    async with house.open("one", commands=[ECHO], command_settings=CommandSettings(suggest=False)) as gateway:
        assert (await gateway.ask("/ehco a")).kind == "answered"


@pytest.mark.spec("C-03", "C-04")
@in_virtual_time
async def test_a_command_gets_a_small_context_and_answers_with_text_embeds_and_for_whom(house: House) -> None:
    scopes: list[CommandScope] = []

    async def look(args: Sequence[str], scope: CommandScope) -> CommandReply:
        scopes.append(scope)
        return CommandReply("seen", ephemeral=True, embeds=(Embed(title="Card", text="more"),))

    command = BasicCommand(name="look", description="", usage="", answer=look)
    async with house.open(commands=[command]) as gateway:
        await gateway.ask("/look closely", message_id="m-1")
        outbound = gateway.channel.sent[-1].unit.outbound
        assert outbound.ephemeral
        assert "Card" in gateway.said[-1]
        (scope,) = scopes
        assert (scope.inbound.message_id, scope.sender.id, scope.person.id) == ("m-1", "ada", "memory:local:ada")
        assert scope.accepted is not None
        assert scope.accepted.session == scope.session


@pytest.mark.spec("C-07")
@in_virtual_time
async def test_the_prefix_is_a_slash_unless_the_settings_say_otherwise(house: House) -> None:
    async with house.open(commands=[ECHO]) as gateway:
        assert (await gateway.ask("/echo a")).reply == "a"
    async with house.open("ok", commands=[ECHO], command_settings=CommandSettings(prefix="fin!")) as gateway:
        assert (await gateway.ask("fin!echo a")).reply == "a"
        assert "fin!echo – Says it again" in ((await gateway.ask("fin!help")).reply or "")
        assert (await gateway.ask("/echo a")).kind == "answered"
