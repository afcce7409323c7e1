"""Errors of the Bot API as the operator reads them: no part of the bot's token is in them."""

import pytest
from aiogram.exceptions import AiogramError, ClientDecodeError, TelegramBadRequest
from aiogram.methods import GetMe
from pydantic import BaseModel, ValidationError

from finclaw.channels.telegram.failures import describe, translate_call
from finclaw.redaction import Secret

TOKEN = "123456789:AAEhBOweik6ad9r_QXMENQjcrGbqCr4K-bc"


class _Me(BaseModel):
    id: int


def unreadable_answer(echo: str) -> AiogramError:
    try:
        _Me.model_validate({"id": echo})
    except ValidationError as error:
        return ClientDecodeError("Failed to deserialize object", error, {"ok": True, "result": {"id": echo}})
    raise AssertionError("that is no number")


@pytest.mark.parametrize("before", range(440, 505, 3))
def test_refusal_that_repeats_the_token_is_redacted_before_it_is_cut(before: int) -> None:
    Secret(TOKEN)
    shown = describe(TelegramBadRequest(GetMe(), "w" * before + TOKEN))
    assert TOKEN[:4] not in shown
    assert len(shown) <= 500


@pytest.mark.parametrize("echo", [TOKEN, f"https://api.telegram.org/bot{TOKEN}/getMe", "x" * 20 + TOKEN])
def test_unreadable_answer_does_not_show_what_the_server_sent(echo: str) -> None:
    Secret(TOKEN)
    shown = str(translate_call(unreadable_answer(echo)))
    assert "could not be read" in shown
    assert not any(TOKEN[start : start + 4] in shown for start in range(len(TOKEN) - 3))
