"""Channels of the settings: made by their kind, heard by their lists, and answered."""

from pathlib import Path

import pytest

import finclaw
from finclaw.agent.settings import AgentSettings
from finclaw.channels.settings import ChannelSettings
from finclaw.errors import ConfigError, ExtensionError
from finclaw.kernel.envelope import Inbound, Sender
from finclaw.kernel.extension import ExtensionApi
from finclaw.kernel.port import Channel, ChannelSpec
from finclaw.testing import FakeClock, MemoryChannel, ScriptedProvider


class Platform:
    """An extension with a kind of channel."""

    name = "platform"

    def __init__(self, *kinds: str) -> None:
        self.kinds = kinds or ("memory",)
        self.made: list[MemoryChannel] = []

    def register(self, api: ExtensionApi) -> None:
        for kind in self.kinds:
            api.channels.register(kind, self.make)

    def make(self, spec: ChannelSpec) -> Channel:
        if spec.settings.get("bad"):
            raise ConfigError("settings.bad must not be set")
        channel = MemoryChannel(spec.clock, name=spec.settings.get("name", spec.name))
        self.made.append(channel)
        return channel


def settings(where: Path, **channels: ChannelSettings) -> finclaw.Settings:
    return finclaw.Settings(state=where, channels=channels, agent=AgentSettings(default_extensions=()))


async def test_a_kind_of_an_extension_is_received_answered_and_closed(tmp_path: Path) -> None:
    platform, provider = Platform(), ScriptedProvider("hello")
    chosen = settings(tmp_path, desk=ChannelSettings(kind="memory"), box=ChannelSettings(kind="mailbox"))
    async with finclaw.build(chosen, provider=provider, extensions=[platform], clock=FakeClock()) as app:
        (desk,) = platform.made
        await desk.write("hi")
        assert [sent.text for sent in await desk.until_sent(1)] == ["hello"]
        assert app.ready
    assert desk.closed


@pytest.mark.parametrize(
    ("sender", "conversation", "is_heard"),
    [("mina", "anywhere", True), ("jun", "team", True), ("jun", "anywhere", False)],
)
async def test_the_allow_lists_decide_who_is_heard(
    tmp_path: Path, sender: str, conversation: str, is_heard: bool
) -> None:
    desk = ChannelSettings(kind="mailbox", allow_senders=("mina",), allow_conversations=("team",))
    provider = ScriptedProvider("hello")
    async with finclaw.build(settings(tmp_path, desk=desk), provider=provider) as app:
        inbound = Inbound(text="hi", channel="desk", conversation=conversation, sender=Sender(sender))
        outcome = await app.handle(inbound)
        assert (outcome.kind == "answered", len(provider.requests) == 1) == (is_heard, is_heard)
        if not is_heard:
            assert (outcome.kind, outcome.reason) == ("skipped", "the sender is not on the allow lists of channel desk")
        api = await app.handle(Inbound(text="/help", sender=Sender("jun")))
        assert api.kind == "command", "other channels have no such lists"


@pytest.mark.parametrize(
    ("channel", "words"),
    [
        (ChannelSettings(kind="memry"), "did you mean memory?"),
        (ChannelSettings(kind="memory", settings={"bad": True}), "channels.desk: settings.bad must not be set"),
        (ChannelSettings(kind="memory", settings={"name": "other"}), "no channel of that name"),
    ],
)
async def test_one_that_cannot_be_made_stops_the_start(tmp_path: Path, channel: ChannelSettings, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        async with finclaw.build(
            settings(tmp_path, desk=channel), provider=ScriptedProvider(), extensions=[Platform()]
        ):
            pass


@pytest.mark.parametrize(
    ("kinds", "words"), [(("mailbox",), "FinClaw"), (("a", "a"), "platform"), (("A b",), "no kind")]
)
async def test_a_kind_belongs_to_one(tmp_path: Path, kinds: tuple[str, ...], words: str) -> None:
    with pytest.raises(ExtensionError, match=words):
        async with finclaw.build(settings(tmp_path), provider=ScriptedProvider(), extensions=[Platform(*kinds)]):
            pass
