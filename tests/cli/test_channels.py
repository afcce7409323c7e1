"""`finclaw channels`: the list tells who brings a kind; a test says what is wrong with one."""

import json
from pathlib import Path

import pytest
from tests.cli.in_process import typed

SETTINGS = """\
agent: {extensions: [platforms.py]}
channels:
  desk: {kind: mailbox, account: front}
  bot: {kind: chatty, secrets: {token: "env:CHATTY_TOKEN"}, allow_senders: ["42"]}
  lost: {kind: chaty}
"""
PLATFORMS = """\
from finclaw.channels.mailbox import MailboxChannel
from finclaw.errors import ChannelError, ConfigError

name = "platforms"

class Chatty(MailboxChannel):
    def __init__(self, spec):
        super().__init__(spec.name)
        self.token = spec.secrets["token"].reveal()

    async def check(self):
        if self.token != "right-right":
            raise ChannelError("the platform does not know this token; make a new one")
        return "reached as @chatty"

def register(api):
    api.channels.register("chatty", Chatty)
"""


@pytest.fixture
def state(tmp_path: Path) -> Path:
    (tmp_path / "platforms.py").write_text(PLATFORMS)
    (tmp_path / "finclaw.yaml").write_text(SETTINGS)
    return tmp_path


def test_the_list_needs_no_secret_and_shows_none(state: Path) -> None:
    ended = typed("channels", "list", "--state", state)
    assert (ended.code, ended.err) == (0, "")
    head, desk, bot, lost, kinds = ended.out.splitlines()
    assert head.split() == ["CHANNEL", "KIND", "FROM", "ACCOUNT", "SECRETS", "HEARD"]
    assert desk.split() == ["desk", "mailbox", "FinClaw", "front", "-", "everybody"]
    assert bot.split() == ["bot", "chatty", "platforms", "default", "token", "42"]
    assert "no such kind" in lost
    assert kinds == "kinds: mailbox (FinClaw), telegram (FinClaw), chatty (platforms)"
    listed = json.loads(typed("channels", "list", "--json", "--state", state).out)
    assert [each["name"] for each in listed["channels"]] == ["desk", "bot", "lost"]
    assert listed["channels"][1]["secrets"] == ["token"]


def test_without_any_it_says_so(tmp_path: Path) -> None:
    assert typed("channels", "list", "--state", tmp_path).out.startswith("no channels are configured")


def test_a_test_reaches_the_platform(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHATTY_TOKEN", "right-right")
    ended = typed("channels", "test", "bot", "--state", state)
    assert (ended.code, ended.out) == (0, "bot: ok, reached as @chatty\n")
    assert json.loads(typed("channels", "test", "bot", "--json", "--state", state).out)["ok"] is True


def test_what_is_wrong_is_said_and_what_to_do(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = typed("channels", "test", "bot", "--state", state)
    assert (ended.code, "CHATTY_TOKEN, which is not set" in ended.err) == (2, True)
    monkeypatch.setenv("CHATTY_TOKEN", "wrong-wrong")
    ended = typed("channels", "test", "bot", "--state", state)
    assert (ended.code, ended.out) == (1, "")
    assert ended.err == "finclaw: channel bot: the platform does not know this token; make a new one\n"
    assert "wrong-wrong" not in ended.err


@pytest.mark.parametrize(("name", "words"), [("dsk", "did you mean desk?"), ("lost", "channels.lost.kind is 'chaty'")])
def test_a_misspelled_name_or_kind_gets_a_suggestion(
    state: Path, monkeypatch: pytest.MonkeyPatch, name: str, words: str
) -> None:
    monkeypatch.setenv("CHATTY_TOKEN", "right-right")
    ended = typed("channels", "test", name, "--state", state)
    assert ended.code == 2
    assert words in ended.err
