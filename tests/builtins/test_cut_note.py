"""An answer that ran into its limit says so; one that ended by itself does not."""

import pytest
from tests.walks.house import House, in_virtual_time
from tests.walks.tools import Desk

from finclaw.kernel.envelope import Outbound
from finclaw.kernel.scope import DeliveryContext
from finclaw.testing import call, reply

ENGLISH = "(The answer was cut off here: it had reached its longest. Ask me to go on.)"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("How is Samsung?", ENGLISH),
        (
            "삼성전자 어때?",
            "(답변이 길이 한도에 도달해 여기서 끊겼습니다. 계속해 달라고 하시면 이어서 답변하겠습니다.)",
        ),
    ],
)
@in_virtual_time
async def test_a_cut_answer_says_so_in_the_persons_language(house: House, text: str, line: str) -> None:
    async with house.open(reply("It closed hig", stop="max_tokens"), "her.") as gateway:
        assert (await gateway.ask(text)).reply == f"It closed hig\n\n{line}"
        assert (await gateway.ask("go on")).reply == "her.", "and once only"


@pytest.mark.parametrize("stop", ["end", "stop_sequence", "refusal"])
@in_virtual_time
async def test_a_whole_answer_has_no_line(house: House, stop: str) -> None:
    async with house.open(reply("It closed higher.", stop=stop)) as gateway:  # pyright: ignore[reportArgumentType]
        assert (await gateway.ask("hi")).reply == "It closed higher."


@in_virtual_time
async def test_only_the_last_answer_of_a_turn_counts(house: House) -> None:
    desk = Desk()
    looking = reply("I look", call("look", {"text": "x"}), stop="max_tokens")
    async with house.open(looking, "Done.", tools=[desk.tool("look")]) as gateway:
        assert (await gateway.ask("hi")).reply == "Done."


@in_virtual_time
async def test_where_a_layer_says_nothing_nothing_is_added(house: House) -> None:
    async def silent(ctx: DeliveryContext) -> Outbound:
        await ctx.next()
        return Outbound(text="<<NO_REPLY>>")

    async with house.open(reply("half", stop="max_tokens"), layers=[("delivery", silent)]) as gateway:
        assert (await gateway.ask("hi")).kind == "skipped"
