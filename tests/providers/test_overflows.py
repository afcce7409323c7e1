"""What is too long is known by status, code, type or parameter; words are for people, and for nobody else."""

import json

import pytest
from tests.providers.overflows import OVERFLOWS, Overflow

from finclaw.errors import BadRequest, ContextTooLong
from finclaw.providers.anthropic.answer import KINDS as ANTHROPIC
from finclaw.providers.http.failure import complaint_of, status_error, stream_error
from finclaw.providers.openai.answer import IN_STREAM
from finclaw.providers.openai.answer import KINDS as OPENAI

KINDS = {"anthropic": ANTHROPIC, "openai": OPENAI}


@pytest.mark.spec("DX-47", "RT-03")
@pytest.mark.parametrize("overflow", OVERFLOWS, ids=lambda overflow: overflow.server)
def test_how_each_server_says_so(overflow: Overflow) -> None:
    body = overflow.body if isinstance(overflow.body, str) else json.dumps(overflow.body)
    error = status_error("api", overflow.status, None, body.encode(), KINDS[overflow.wire])
    assert type(error) is (ContextTooLong if overflow.told else BadRequest)


@pytest.mark.parametrize("param", [None, "messages", "max_tokens", 3, ["input_tokens"], {"input_tokens": 1}])
def test_another_parameter_says_nothing(param: object) -> None:
    body = json.dumps({"error": {"type": "BadRequestError", "code": 400, "param": param, "message": "input_tokens"}})
    assert type(status_error("api", 400, None, body.encode(), OPENAI)) is BadRequest


def test_it_may_come_in_the_stream() -> None:
    complaint = complaint_of({"type": "BadRequestError", "code": 400, "param": "input_tokens", "message": "x"})
    assert type(stream_error("api", complaint, IN_STREAM)) is ContextTooLong
