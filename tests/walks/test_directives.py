"""Directives: read before anything else, out of what the model sees, for a turn or for a session, or refused."""

from pathlib import Path

import pytest
from tests.walks.house import Gateway, House, in_virtual_time

from finclaw.agent.settings import AgentSettings
from finclaw.approvals.people import PersonSettings
from finclaw.kernel.envelope import Attachment, TurnOptions
from finclaw.pipeline.settings import CommandSettings
from finclaw.storage.kinds import StoreKind

HAIKU = AgentSettings(model="anthropic/claude-haiku-4-5")
ONLY_OWNER = {
    "en": "/model is for owner only, so I have not answered. Send your message without /model.",
    "ko": "/model 명령은 owner 역할이 있어야 쓸 수 있어서 답변하지 않았습니다. /model 없이 다시 보내 주세요.",
}
BOB = PersonSettings(name="Bob", known_as=("memory:local:bob",), roles=("owner",))


def user_texts(gateway: Gateway) -> list[str]:
    return [each.text for each in gateway.seen if each.role == "user" and not each.passing]


@pytest.mark.spec("DI-01", "DI-02", "P-57")
@pytest.mark.parametrize(
    ("text", "seen", "thinking", "lengthy"),
    [
        ("/think high Why did it fall?", "Why did it fall?", "high", False),
        ("/think high\n\n  two  spaces\tand\n\n/think low stay", "two  spaces\tand\n\n/think low stay", "high", False),
        ("/verbose What is a bond?", "What is a bond?", "off", True),
        ("/verbose on /think low 왜 떨어졌어?", "왜 떨어졌어?", "low", True),
        ("<@bot> /생각 높음 왜?", "왜?", "high", False),
        ("/THINK Medium /usr/bin is a path", "/usr/bin is a path", "medium", False),
        ("what does /think high do?", "what does /think high do?", "off", False),
        ("```\n/think high\n```", "```\n/think high\n```", "off", False),
    ],
)
def test_in_front_of_a_message_it_holds_for_that_turn_and_the_model_never_sees_it(
    house: House, text: str, seen: str, thinking: str, lengthy: bool
) -> None:
    async def walk() -> None:
        async with house.open("one", "two", agent=HAIKU) as gateway:
            assert (await gateway.ask(text)).kind == "answered"
            request = gateway.provider.requests[-1]
            assert user_texts(gateway) == [seen]
            assert request.thinking == thinking
            assert any(each.passing == "verbosity" for each in request.messages) == lengthy
            await gateway.ask("and now?")
            assert user_texts(gateway) == [seen, "and now?"]
            assert gateway.provider.requests[-1].thinking == "off"

    house.clock.run(walk())


@pytest.mark.spec("DI-01")
@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
def test_alone_it_lasts_for_the_session_and_survives_a_restart(tmp_path: Path, kind: StoreKind) -> None:
    house = House(tmp_path, kind=kind)

    async def walk() -> None:
        async with house.open("one", "two", agent=HAIKU) as gateway:
            outcome = await gateway.ask("/think high /verbose")
            assert (outcome.kind, gateway.provider.requests) == ("command", [])
            assert gateway.said == [
                "Thinking: high\nDetail: high\nThis holds for this conversation until /reset, or /think default."
            ]
            await gateway.ask("hello")
            await gateway.ask("/think low just this once")
            assert [each.thinking for each in gateway.provider.requests] == ["high", "low"]
        async with house.open("three", "four", "five", "six", agent=HAIKU) as gateway:
            await gateway.ask("again")
            await gateway.ask("elsewhere", conversation="other")
            assert (await gateway.ask("/생각 기본")).reply == "생각 수준: off\n설정에 있는 값입니다."
            await gateway.ask("once more")
            await gateway.ask("/think high")
            await gateway.ask("/reset")
            await gateway.ask("anew")
            assert [each.thinking for each in gateway.provider.requests] == ["high", "off", "off", "off"]

    house.clock.run(walk())


@pytest.mark.spec("DI-03")
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("/model offline/demo", "/model is for owner only."),
        (
            "/model offline/demo hello",
            "/model is for owner only, so I have not answered. Send your message without /model.",
        ),
        (
            "/모델 offline/demo 안녕하세요",
            "/model 명령은 owner 역할이 있어야 쓸 수 있어서 답변하지 않았습니다. /model 없이 다시 보내 주세요.",
        ),
        ("/think hard about it", "/think cannot be “hard”. Choose one of: off, low, medium, high, default."),
        ("/think /verbose hello", "/think needs a value: off, low, medium, high, default."),
        (
            "/queue fast",
            "/queue cannot be “fast”. Choose one of: auto, followup, steer, queue, collect, interrupt, "
            "steer-backlog, default.",
        ),
    ],
)
def test_what_is_not_allowed_is_refused_with_a_reason_and_no_model_is_asked(
    house: House, text: str, words: str
) -> None:
    async def walk() -> None:
        async with house.open(agent=HAIKU) as gateway:
            assert (await gateway.ask(text)).kind == "refused"
            assert gateway.said == [words]
            assert not gateway.provider.requests

    house.clock.run(walk())


@pytest.mark.spec("DI-03")
@in_virtual_time
async def test_a_model_must_be_there_and_able_and_the_person_allowed(house: House) -> None:
    async with house.open("usual", agent=HAIKU, people=[BOB]) as gateway:
        unknown = await gateway.ask("/model sonet hello", sender="bob")
        assert unknown.kind == "refused"
        assert gateway.said == ["I cannot use the model “sonet” here. /model shows which there are."]
        await gateway.ask("/model offline/demo AAPL price", sender="bob")
        assert not gateway.provider.requests
        unable = await gateway.ask("/model offline/demo /think high AAPL price", sender="bob")
        assert (unable.kind, gateway.said[-1]) == (
            "refused",
            "The model offline/demo cannot think before it answers, so /think can only be off.",
        )
        assert (await gateway.ask("/model offline/demo", sender="bob")).kind == "command"
        await gateway.ask("AAPL price", sender="bob")
        assert not gateway.provider.requests
        assert (await gateway.ask("/model default", sender="bob")).kind == "command"
        assert (await gateway.ask("hello", sender="bob")).reply == "usual"


@pytest.mark.spec("DI-03")
@in_virtual_time
async def test_the_settings_say_who_may_use_a_directive(house: House) -> None:
    settings = CommandSettings(directives={"model": (), "think": ("owner",)})
    async with house.open(agent=HAIKU, command_settings=settings, people=[BOB]) as gateway:
        assert (await gateway.ask("/model offline/demo AAPL price")).kind == "answered"
        assert (await gateway.ask("/think high")).reply == "/think is for owner only."
        assert (await gateway.ask("/think high", sender="bob")).kind == "command"
    switched_off = CommandSettings(disabled=("think",))
    async with house.open(agent=HAIKU, command_settings=switched_off) as gateway:
        assert (await gateway.ask("/think high hello")).reply == "/think is switched off here."


@pytest.mark.spec("DI-02")
@in_virtual_time
async def test_the_trace_says_which_options_a_turn_had(house: House) -> None:
    async with house.open("one", "two", agent=HAIKU) as gateway:
        await gateway.ask("/verbose low")
        options = list[object]()
        for text in ("/think high why?", "plain"):
            outcome = await gateway.ask(text)
            trace = await gateway.app.turn(outcome.turn_id or "")
            assert trace is not None
            options.append(trace.messages[0].metadata.get("options"))
            noted = next(each.reason for each in outcome.stages if each.name == "command")
            assert noted == ("directives: thinking high" if text.startswith("/") else "")
        assert options == [{"thinking": "high", "verbosity": "low"}, {"verbosity": "low"}]


@in_virtual_time
async def test_with_a_picture_and_no_words_it_is_not_alone(house: House) -> None:
    picture = Attachment(id="a-1", kind="image", mime="image/png", problem="unreachable")
    async with house.open("one", agent=HAIKU) as gateway:
        assert (await gateway.ask("/think high", attachments=(picture,))).kind == "answered"
        assert gateway.provider.requests[-1].thinking == "high"
        assert gateway.app.options.find(gateway.events[0].session) == TurnOptions()


@in_virtual_time
async def test_a_directive_before_a_command_leaves_the_command(house: House) -> None:
    async with house.open(agent=HAIKU) as gateway:
        assert "/help" in ((await gateway.ask("/think high /help")).reply or "")


@pytest.mark.spec("DX-69")
@in_virtual_time
async def test_directives_are_read_first_then_commands_and_files_are_one_list(house: House) -> None:
    files = (Attachment(id="1", kind="image"), Attachment(id="2", kind="file", name="a.csv"))
    async with house.open("ok", agent=HAIKU) as gateway:
        outcome = await gateway.ask("/think high /whoami")
        assert (outcome.kind, outcome.reason) == ("command", "answered by /whoami")
        await gateway.ask("/think low look", attachments=files)
        assert "a picture, a file (a.csv)" in gateway.seen[-1].text
        assert gateway.provider.requests[-1].thinking == "low"
