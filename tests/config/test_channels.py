"""The settings `channels`: what loads, and how what does not is told."""

from pathlib import Path

import pytest

from finclaw.config.load import load_settings
from finclaw.config.schema import Settings
from finclaw.errors import ConfigError


def load(where: Path, text: str, **environ: str) -> Settings:
    (where / "finclaw.yaml").write_text(text, encoding="utf-8")
    return load_settings(state=where, environ=environ)


@pytest.mark.spec("V-09")
def test_a_channel_has_a_kind_an_account_secrets_and_lists(tmp_path: Path) -> None:
    text = """
channels:
  desk:
    kind: telegram
    account: bot1
    secrets: {token: env:DESK_TOKEN}
    allow_senders: ["42"]
    allow_conversations: ["-100"]
    settings: {poll_s: 20}
  plain: {kind: mailbox}
"""
    desk, plain = load(tmp_path, text, DESK_TOKEN="hush-hush-hush").channels.values()
    assert (desk.kind, desk.account, desk.secrets["token"].reveal()) == ("telegram", "bot1", "hush-hush-hush")
    assert (desk.allow_senders, desk.allow_conversations, desk.settings) == (("42",), ("-100",), {"poll_s": 20})
    assert (plain.account, plain.secrets, plain.allow_senders) == ("default", {}, ())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("channels: {desk: {kind: mailbox, acount: x}}", "did you mean channels.desk.account?"),
        ("channels: {desk: {account: x}}", "channels.desk needs kind"),
        ("channels: {desk: {kind: mailbox, account: 'a:b'}}", "leave out colons"),
        ("channels: {desk: {kind: mailbox, secrets: {token: 'abc'}}}", "must not hold the secret itself"),
        ("channels: {desk: {kind: mailbox, secrets: {token: 'env:NOT_THERE'}}}", "NOT_THERE, which is not set"),
        ("channels: {desk: {kind: mailbox, allow_senders: 42}}", "channels.desk.allow_senders must be"),
        ("channels: {web: {kind: mailbox}}", "one of the gateway's own"),
        ("channels: {'De:sk': {kind: mailbox}}", "small letters"),
        ("channels: [mailbox]", "channels must be"),
        ("chanels: {}", "did you mean channels?"),
    ],
)
def test_what_does_not_fit_is_told_with_its_place(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    assert words in str(caught.value)
    assert "finclaw.yaml" in str(caught.value)
