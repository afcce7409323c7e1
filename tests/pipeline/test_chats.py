"""Where somebody is found: in the direct chat they used last, however odd the ids, and nowhere else."""

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.machine import examples

from finclaw.channels.mailbox import MailboxChannel
from finclaw.ids import identity
from finclaw.kernel.envelope import ChatType, Inbound, Sender
from finclaw.kernel.store_port import Store
from finclaw.pipeline.persons import Chats, PersonDirectory
from finclaw.sessions.session_key import session_key
from finclaw.storage.sqlite.store import open_store
from finclaw.testing import FakeClock

CHANNELS = {name: MailboxChannel(name) for name in ("web", "chat", "api", "subagent")}
IDS = st.sampled_from(["a", "ab", "b", "a+b", "a:b", "%", "a/b", "나", "+", "1"])


async def wrote(
    store: Store, clock: FakeClock, sender: str, conversation: str, kind: ChatType = "direct", channel: str = "chat"
) -> str:
    fields: dict[str, Any] = {"channel": channel, "account": "bot", "chat_type": kind}
    inbound = Inbound(text="hi", conversation=conversation, sender=Sender(sender), **fields)
    clock.advance(1)
    key = session_key("main", inbound)
    await store.accept(inbound, key, lambda _: None)
    return key


@given(st.lists(st.tuples(IDS, IDS, st.sampled_from(["direct", "group"])), max_size=6), IDS)
@settings(max_examples=examples(60))
def test_always_the_one_used_last_by_exactly_this_sender(talks: list[tuple[str, str, ChatType]], wanted: str) -> None:
    clock = FakeClock()

    async def walk(where: Path) -> None:
        store = open_store(where / "x.db", clock, threaded=False)
        expected, last = None, ""
        for sender, conversation, kind in talks:
            key = await wrote(store, clock, sender, conversation, kind)
            if sender == wanted and kind == "direct":
                expected, last = key, conversation
        chat = await Chats("main", store, CHANNELS, PersonDirectory()).chat_of([identity("chat", "bot", wanted)])
        assert (None if chat is None else chat.session) == expected
        if chat is not None:
            assert (chat.channel, chat.account, chat.conversation, chat.sender) == ("chat", "bot", last, wanted)
        await store.close()

    with tempfile.TemporaryDirectory() as where:
        clock.run(walk(Path(where)))


@pytest.mark.parametrize("channel", ["api", "subagent", "gone"])
def test_where_nobody_reads_nobody_is_found(tmp_path: Path, channel: str) -> None:
    clock = FakeClock()

    async def walk() -> None:
        store = open_store(tmp_path / "x.db", clock, threaded=False)
        await wrote(store, clock, "ada", "ada", channel=channel)
        chats = Chats("main", store, CHANNELS, PersonDirectory())
        assert await chats.chat_of([identity(channel, "bot", "ada")]) is None
        await store.close()

    clock.run(walk())


def test_others_with_a_like_name_do_not_hide_somebody(tmp_path: Path) -> None:
    """The owner behind three hundred labels of their own token."""
    clock = FakeClock()

    async def walk() -> None:
        store = open_store(tmp_path / "x.db", clock, threaded=False)
        key = await wrote(store, clock, "owner", "main", channel="web")
        for number in range(300):
            await wrote(store, clock, f"owner/{number}", "main", channel="web")
        chat = await Chats("main", store, CHANNELS, PersonDirectory()).chat_of([identity("web", "bot", "owner")])
        assert chat is not None
        assert chat.session == key
        await store.close()

    clock.run(walk())
