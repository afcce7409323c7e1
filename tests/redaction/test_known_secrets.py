"""Security trial H13: a configured secret is found by its value, however it is written."""

import base64
import html
import json
import time
from itertools import product
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError
from tests.machine import is_quick

from finclaw.config.load import SecretKeeper
from finclaw.redaction import (
    HIDDEN,
    KnownSecrets,
    Secret,
    forget_known_secrets,
    hide_and_cut,
    hide_in_bytes,
    hide_known_secrets,
    remember_secret,
)

PLAIN = "zanzibar plum/0x7+ä=="
VALUES = ["plumtree9", "zanzibarplum", PLAIN, 'say "friend" & <enter>\\', "비밀스러운열쇠입니다", "00000000-1111-2222"]


@pytest.mark.parametrize("value", VALUES)
def test_a_secret_is_hidden_from_the_moment_it_is_one(value: str) -> None:
    text = f"it was refused: {value}."
    assert hide_known_secrets(text) == text
    Secret(value)
    assert hide_known_secrets(text) == f"it was refused: {HIDDEN}."


@pytest.mark.parametrize("value", VALUES)
def test_base64_of_anything_that_holds_it_is_hidden_whole(value: str) -> None:
    remember_secret(value)
    befores, afters = ("", "a", "ab", "user:", "some.one@example.com:"), ("", "z", "zz", "\n")
    texts = [(before + value + after).encode() for before in befores for after in afters]
    for raw, encode in product(texts, (base64.b64encode, base64.urlsafe_b64encode)):
        written = encode(raw).decode()
        assert (
            hide_known_secrets(f"Authorization: Basic {written}, it said") == f"Authorization: Basic {HIDDEN}, it said"
        )
        bare = written.rstrip("=")
        assert hide_known_secrets(f"<{bare}>") == f"<{HIDDEN}>"


@pytest.mark.parametrize("value", VALUES)
def test_it_is_hidden_as_addresses_json_html_and_hexadecimal_write_it(value: str) -> None:
    remember_secret(value)
    written = {
        quote(value),
        quote(value, safe=""),
        quote_plus(value),
        quote(value, safe="").lower() if value.isascii() and value.islower() else value,
        json.dumps(value),
        json.dumps(value, ensure_ascii=False),
        repr(value),
        html.escape(value),
        value.encode().hex(),
        value.encode().hex().upper(),
    }
    for each in written:
        assert hide_known_secrets(each).strip("\"'") == HIDDEN, each


def test_what_is_hidden_in_json_leaves_json() -> None:
    remember_secret("zanzibarplum")
    inner = base64.b64encode(b"user:zanzibarplum").decode()
    written = json.dumps({"a": f"first\n{inner}", "b": ["zanzibarplum"], "zanzibarplum": 1})
    read = json.loads(hide_known_secrets(written))
    assert "zanzibarplum" not in json.dumps(read)
    assert read["b"] == [HIDDEN]


def test_each_line_of_a_private_key_is_a_secret() -> None:
    lines = ["MIIEvQIBADANBgkqhkiG9w0BAQEFAASC", "q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQ"]
    remember_secret("-----BEGIN PRIVATE KEY-----\n" + "\n".join(lines) + "\n-----END PRIVATE KEY-----\n")
    for line in lines:
        assert hide_known_secrets(f"line: {line}") == f"line: {HIDDEN}"


@pytest.mark.parametrize("value", ["", "short", "1234567", "   seven  "])
def test_what_is_shorter_than_eight_characters_is_a_word(value: str) -> None:
    remember_secret(value)
    text = f"a {value} word, seven short ones"
    assert hide_known_secrets(text) is text


def test_the_register_shows_nothing_of_what_it_holds() -> None:
    known = KnownSecrets()
    known.remember("zanzibarplum")
    assert "zanzibar" not in repr(known) + str(known)
    known.forget_all()
    assert known.hide("zanzibarplum") == "zanzibarplum"


def test_secrets_without_end_are_not_kept_without_end() -> None:
    known = KnownSecrets()
    for number in range(2_000):
        known.remember(f"secret-number-{number:05}")
    assert known.hide("secret-number-01999") == HIDDEN
    assert known.hide("secret-number-00000") != HIDDEN


def test_configured_secrets_are_never_evicted() -> None:
    SecretKeeper({"KEY": "model-key-of-mine"}, Path()).fetch("providers.x.key", "env:KEY")
    kept = Secret("kept-by-an-extension")
    for number in range(2_000):
        Secret(f"day-token-{number:05}", temporary=True)
    text = "model-key-of-mine kept-by-an-extension day-token-01999"
    assert hide_known_secrets(text) == f"{HIDDEN} {HIDDEN} {HIDDEN}"
    assert hide_known_secrets("day-token-00000") == "day-token-00000"
    assert kept.reveal() == "kept-by-an-extension"


def test_temporary_secret_that_becomes_configured_is_kept() -> None:
    known = KnownSecrets()
    known.remember("first-a-day-token")
    known.remember("first-a-day-token", configured=True)
    known.remember("first-a-day-token")
    for number in range(600):
        known.remember(f"day-token-{number:05}")
    assert known.hide("first-a-day-token") == HIDDEN


def test_temporary_secret_in_use_outlives_newer_ones() -> None:
    known = KnownSecrets()
    for number in range(2_000):
        known.remember("used-every-minute")
        known.remember(f"day-token-{number:05}")
    assert known.hide("used-every-minute") == HIDDEN


@pytest.mark.parametrize(
    "value", ["pässwörd-of-mine", "비밀스러운열쇠입니다", 'say "friend" & <enter>', "slash/es\\back"]
)
@pytest.mark.parametrize("ascii_inside", [True, False])
@pytest.mark.parametrize("ascii_outside", [True, False])
def test_json_inside_json_is_hidden(value: str, ascii_inside: bool, ascii_outside: bool) -> None:
    remember_secret(value)
    inside = json.dumps({"key": value}, ensure_ascii=ascii_inside)
    shown = json.loads(json.loads(hide_known_secrets(json.dumps(inside, ensure_ascii=ascii_outside))))
    assert shown == {"key": HIDDEN}


BOT_TOKEN = "123456789:AAEhBOweik6ad9r_QXMENQjcrGbqCr4K-bc"


class _Answer(BaseModel):
    ok: int


@pytest.mark.parametrize("before", range(0, 30, 3))
def test_secret_shortened_in_the_middle_by_a_library_is_hidden(before: int) -> None:
    remember_secret(BOT_TOKEN)
    with pytest.raises(ValidationError) as caught:
        _Answer.model_validate({"ok": "x" * before + BOT_TOKEN})
    shown = hide_known_secrets(str(caught.value))
    assert not any(BOT_TOKEN[start : start + 16] in shown for start in range(len(BOT_TOKEN) - 15))


@pytest.mark.parametrize("between", ["", " ", "'", "')", '\\"}', "[", "> ("])
@pytest.mark.parametrize("ellipsis", ["...", "…", "\\u2026", "&hellip;"])
def test_part_of_a_secret_beside_an_ellipsis_is_hidden(ellipsis: str, between: str) -> None:
    remember_secret(BOT_TOKEN)
    for part in (BOT_TOKEN[:30], BOT_TOKEN[:-1]):
        assert hide_known_secrets(f"at {part}{between}{ellipsis} it") == f"at {HIDDEN}{between}{ellipsis} it"
    for part in (BOT_TOKEN[-30:], BOT_TOKEN[1:]):
        assert hide_known_secrets(f"at {ellipsis}{between}{part} it") == f"at {ellipsis}{between}{HIDDEN} it"


def test_beginning_of_a_secret_in_ordinary_text_stays() -> None:
    remember_secret("https://hooks.example/services/T000/B000")
    for text in ("see https://hooks.example for more", "it is at https://hooks.example", "https://other.example/..."):
        assert hide_known_secrets(text) == text


def test_text_is_redacted_before_it_is_cut() -> None:
    remember_secret(BOT_TOKEN)
    for length in range(1, 60):
        assert BOT_TOKEN[:2] not in hide_and_cut(f"at {BOT_TOKEN} it ends", length)


@given(st.binary(max_size=200))
def test_bytes_of_any_kind_keep_what_is_no_secret(content: bytes) -> None:
    remember_secret("zanzibarplum")
    assert hide_in_bytes(content) == content
    assert hide_in_bytes(content + b"zanzibarplum" + content) == content + HIDDEN.encode() + content


def test_hiding_base64_after_an_escape_leaves_valid_json() -> None:
    remember_secret("zanzibarplum")
    inner = base64.b64encode(b"user:zanzibarplum").decode()
    for escaped in ("\\u0001", "\\n", "\\/", "\\\\"):
        assert json.loads(hide_known_secrets(f'"{escaped}{inner}"')).endswith(HIDDEN)


@given(st.text(min_size=8, max_size=40), st.text(max_size=30), st.text(max_size=30))
def test_whatever_stands_around_it_the_value_is_gone(value: str, before: str, after: str) -> None:
    known = KnownSecrets()
    known.remember(value)
    told = known.hide(before + value + after)
    if len(value.strip()) >= 8 and value.strip() not in HIDDEN:
        assert told.count(value.strip()) <= (before + HIDDEN + after).count(value.strip())
    assert known.hide(told).count(HIDDEN) >= told.count(HIDDEN)


def test_a_long_text_is_searched_in_time() -> None:
    forget_known_secrets()
    for number in range(20):
        remember_secret(f"zanzibar-plum-number-{number}")
    core = base64.b64encode(b"zanzibar-plum-number-7").decode()
    many = ("a" * 1_000_000, core * 40_000, "zanzibar-plum-number-" * 50_000, "zanzibar-plum-number-3 " * 45_000)
    for text in (*many, "zanzibar-p..." * 80_000):
        began = time.process_time()
        hide_known_secrets(text)
        assert is_quick(time.process_time() - began, 2)  # 0.08 on a quiet machine
