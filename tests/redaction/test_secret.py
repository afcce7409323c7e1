"""A secret is revealed by one method and by nothing else."""

import copy
import json
import logging
import pickle
import traceback
from typing import Any

import msgspec
import pytest

from finclaw.diagnostics.log import JsonLines, PlainLines
from finclaw.redaction import Secret

HIDDEN = "sk-very-hidden-value"


@pytest.fixture
def secret() -> Secret:
    return Secret(HIDDEN)


def test_it_is_revealed_on_purpose(secret: Secret) -> None:
    assert secret.reveal() == HIDDEN


def test_no_way_of_printing_shows_it(secret: Secret) -> None:
    shown = [
        repr(secret),
        str(secret),
        f"{secret}",
        f"{secret!r:>30}",
        format(secret, "20"),
        "{}".format(secret),  # noqa: UP032
        f"{[secret]}",
    ]
    assert not any(HIDDEN in each for each in shown)


@pytest.mark.parametrize("formatter", [JsonLines(), PlainLines()])
def test_no_log_line_shows_it(secret: Secret, formatter: logging.Formatter) -> None:
    try:
        raise ValueError(secret)
    except ValueError as error:
        info: Any = (type(error), error, error.__traceback__)
    record = logging.LogRecord("finclaw", logging.ERROR, __file__, 1, "key %s", (secret,), info)
    record.key = secret
    assert HIDDEN not in formatter.format(record)


def test_no_trace_shows_it(secret: Secret) -> None:
    try:
        raise RuntimeError(f"login with {secret} failed", secret)
    except RuntimeError as error:
        trace = "".join(traceback.TracebackException.from_exception(error, capture_locals=True).format())
    assert HIDDEN not in trace.replace(f'HIDDEN = "{HIDDEN}"', "")


@pytest.mark.parametrize(
    "write", [pickle.dumps, copy.copy, copy.deepcopy, msgspec.json.encode, msgspec.to_builtins, json.dumps]
)
def test_it_is_never_written_anywhere(secret: Secret, write: Any) -> None:
    with pytest.raises(TypeError) as refused:
        write(secret)
    assert HIDDEN not in str(refused.value)


def test_it_has_no_field_to_look_into(secret: Secret) -> None:
    with pytest.raises(TypeError):
        vars(secret)
    assert not any(
        HIDDEN in str(getattr(secret, name)) for name in dir(secret) if not name.startswith("_") and name != "reveal"
    )


def test_two_of_one_value_are_equal_and_fit_into_a_set(secret: Secret) -> None:
    assert len({secret, Secret(HIDDEN), Secret("other")}) == 2
    assert secret != HIDDEN
