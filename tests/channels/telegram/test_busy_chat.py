"""A chat on Telegram whose answer is being written: the button that stops it, and edits of what was asked."""

from tests.channels.telegram.desk import MINA, Desk, in_virtual_time

from finclaw.kernel.chunk import ModelRequest
from finclaw.testing import Reply, delay, reply, say

NEVER = "Words that nobody sees. "


def answer(request: ModelRequest) -> Reply:
    written = [each.text for each in request.messages if each.role == "user" and "from the gateway" not in each.text]
    slowly = reply(say("삼성전자는 반도체 회사입니다. "), delay(20), say(NEVER), delay(99))
    return slowly if "자세히" in written[-1] else reply(say(f"re: {written[-1]}"))


@in_virtual_time
async def test_a_button_stops_the_answer_and_goes_with_it(desk: Desk) -> None:
    async with desk.gateway(answer):
        desk.api.write(MINA, "삼성전자에 대해 자세히")
        (shown,) = await desk.api.until_shown(MINA, 1)
        assert (shown.text, shown.labels) == ("삼성전자는 반도체 회사입니다.", ["중단"])
        desk.api.push(desk.api.world.press(shown, "중단"))
        stopped, told = await desk.api.until_shown(MINA, 2)
        assert desk.app is not None
        await desk.app.idle()
        await desk.clock.sleep(200)
        assert [each.text for each in desk.api.shown_in(MINA)] == ["삼성전자는 반도체 회사입니다.", "중단했습니다."]
        assert (stopped.labels, told.labels, told.reply_to) == ([], [], shown.number)
        desk.api.push(desk.api.world.edit(MINA, 1, "삼성전자 한 줄로"))
        *_, last = await desk.api.until_shown(MINA, 3)
        assert last.text.endswith("삼성전자 한 줄로")
    assert desk.api.errors == []


@in_virtual_time
async def test_an_edit_of_what_waits_is_answered_in_its_place(desk: Desk) -> None:
    async with desk.gateway(answer):
        for text in ("자세히", "AAPL?", "MSFT?"):
            desk.api.write(MINA, text)
        await desk.api.until_shown(MINA, 1)
        desk.api.push(desk.api.world.edit(MINA, 2, "NVDA?"))
        await desk.api.until(lambda: desk.api.unacknowledged == 0)
        desk.api.write(MINA, "그만")
        await desk.api.until_shown(MINA, 2)
        desk.api.write(MINA, "TSLA?")
        *_, told, last = await desk.api.until_shown(MINA, 3)
        assert (told.text, last.text) == ("중단했습니다. 기다리던 메시지 2개도 취소했습니다.", "re: TSLA?")
