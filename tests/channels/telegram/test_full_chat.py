"""A chat with too many unanswered messages: nobody else waits for it, and its people know what was refused."""

import asyncio
import socket
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from tests.channels.telegram.desk import JUN, MINA, Desk, echo, in_virtual_time

from finclaw.kernel.chunk import ModelRequest
from finclaw.kernel.event import MessageEnded
from finclaw.pipeline.settings import PipelineSettings
from finclaw.testing import hold, reply, say
from finclaw.testing.provider import Line

MOST = 4
FULL = "too many unanswered messages"


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def echo_after(go: asyncio.Event) -> Callable[[ModelRequest], Line]:
    """A model that answers Mina when the test lets it, and everybody else at once."""

    def answer(request: ModelRequest) -> Line:
        said = echo(request)
        return said if go.is_set() or said == "re: hi" else reply(hold(go), say(said))

    return answer


@pytest.mark.parametrize("by_webhook", [False, True], ids=["polling", "webhook"])
@in_virtual_time
async def test_a_full_chat_keeps_back_nobody_and_says_what_it_refused(desk: Desk, by_webhook: bool) -> None:
    port, go = _free_port(), asyncio.Event()
    options: Mapping[str, Any] = {"webhook": {"url": "https://bot.example/hook", "port": port}} if by_webhook else {}
    people = [str(MINA), str(JUN)]
    limit = PipelineSettings(max_waiting=MOST)
    async with desk.gateway(echo_after(go), allow=people, options=options, pipeline=limit) as provider:
        desk.api.proxy = f"http://127.0.0.1:{port}/hook"
        for number in range(MOST):
            desk.api.write(MINA, f"taken {number}")
        await desk.api.until(lambda: desk.api.unacknowledged == 0)
        refused = [desk.api.write(MINA, f"refused {number}") for number in range(3)]
        desk.api.write(JUN, "hi")
        (answer,) = await desk.api.until_shown(JUN, 1)
        assert answer.text == "re: hi"
        desk.api.write(MINA, "/whoami")
        notice, who = await desk.api.until_shown(MINA, 2)
        assert FULL in notice.text
        assert notice.reply_to == refused[0]
        assert str(MINA) in who.text, "a command is answered in a full chat too, such as one that stops a turn"
        await desk.api.until(lambda: desk.api.unacknowledged == 0)
        signs = [
            given["message_id"]
            for method, given in desk.api.log
            if method == "setMessageReaction" and "😢" in str(given)
        ]
        assert signs == refused
        go.set()
        assert desk.app is not None
        await desk.app.idle()
        desk.api.write(MINA, "refused 0, once more")
        await desk.api.until(lambda: any("once more" in each.text for each in desk.api.shown_in(MINA)))
        asked = str([message.text for message in provider.requests[-1].messages])
    assert all(f"taken {number}" in asked for number in range(MOST))
    assert not any(f"refused {number}'" in asked for number in range(3))
    assert [each.text for each in desk.api.shown_in(MINA) if FULL in each.text] == [notice.text], "told once"
    assert desk.api.errors == []


@in_virtual_time
async def test_a_refused_message_is_on_record_and_its_sender_reads_their_language(desk: Desk) -> None:
    go, ended = asyncio.Event(), list[MessageEnded]()
    async with desk.gateway(echo_after(go), pipeline=PipelineSettings(max_waiting=1)):
        assert desk.app is not None
        desk.app.observe(lambda event: ended.append(event) if isinstance(event, MessageEnded) else None)
        for text in ("하나", "둘"):
            desk.api.write(MINA, text)
        (notice,) = await desk.api.until_shown(MINA, 1)
        assert "다시 보내" in notice.text
        (refused,) = ended
        record = await desk.app.wait(refused.inbound_id, 0)
        assert record is not None
        assert record.outcome is not None
        assert record.outcome.kind == "refused"
        assert "pipeline.max_waiting" in record.outcome.reason
        go.set()
