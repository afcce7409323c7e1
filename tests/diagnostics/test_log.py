"""Every line is one JSON object that says which message and turn it belongs to."""

import asyncio
import io
import json
import logging
import re
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from finclaw.diagnostics.log import JsonLines, PlainLines, bind_log_ids, log_ids, start_logging

log = logging.getLogger("finclaw.test")


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    root = logging.getLogger("finclaw")
    before = (root.handlers[:], root.level, root.propagate)
    start_logging("debug", "json")
    stream = io.StringIO()
    handler = root.handlers[0]
    assert isinstance(handler, logging.StreamHandler)
    handler.setStream(stream)  # pyright: ignore[reportUnknownMemberType]
    yield stream
    root.handlers[:], root.level, root.propagate = before


def read(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_is_one_json_object_also_with_a_trace(lines: io.StringIO) -> None:
    try:
        raise ValueError("two\nlines")
    except ValueError:
        log.exception("it %s", "broke", extra={"key": "값"})
    (line,) = read(lines)
    assert (line["level"], line["logger"], line["text"], line["key"]) == ("error", "finclaw.test", "it broke", "값")
    assert line["error"] == "ValueError"
    assert "two\nlines" in line["trace"]
    assert line["at"].endswith("+00:00")


async def test_ids_follow_the_task_and_end_with_the_block(lines: io.StringIO) -> None:
    async def inner() -> None:
        bind_log_ids(turn="t-1")
        log.info("inside")

    with log_ids(message="m-1"):
        await asyncio.gather(inner(), asyncio.create_task(inner()))
        log.info("still")
    log.info("outside")
    told = [(line["text"], line.get("message"), line.get("turn")) for line in read(lines)]
    assert told == [("inside", "m-1", "t-1")] * 2 + [("still", "m-1", None), ("outside", None, None)]


def test_people_get_the_same_in_their_own_form() -> None:
    record = logging.LogRecord("finclaw", logging.WARNING, __file__, 1, "careful", (), None)
    record.unit = "u-1"
    with log_ids(message="m-1"):
        text = PlainLines().format(record)
    assert text.endswith("warning careful  (message=m-1 unit=u-1)")


def test_what_json_cannot_hold_is_shown_as_it_looks() -> None:
    record = logging.LogRecord("finclaw", logging.INFO, __file__, 1, "x", (), None)
    record.odd = {1, 2}
    assert json.loads(JsonLines().format(record))["odd"] == "{1, 2}"


HOSTILE = {
    "clipboard": "\x1b]52;c;ZXZpbA==\x07",
    "clear": "\x1b[2J",
    "C1": "\x9b2J\x9d0;owned\x9c",
    "right to left": "\u202e100\u2066",
    "line break": "401\n12:00:00 error   all is well",
    "carriage return": "401\r12:00:00 error   all is well",
    "other line ends": "401\x0b12:00\x0c12:00\x8512:00\u202812:00\u202912:00",
}


@pytest.mark.parametrize("what", HOSTILE)
@pytest.mark.parametrize("form", [PlainLines, JsonLines])
def test_terminal_obeys_nothing_that_a_log_line_quotes(what: str, form: type[logging.Formatter]) -> None:
    text = HOSTILE[what]
    try:
        try:
            raise ValueError(text)
        except ValueError as error:
            raise RuntimeError(text) from error
    except RuntimeError:
        record = logging.LogRecord("finclaw", logging.ERROR, __file__, 1, "refused: %s", (text,), sys.exc_info())
    setattr(record, text, text)
    first, *others = form().format(record).split("\n")
    assert not re.search("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]", "".join((first, *others)))
    assert all(line.startswith("  | ") for line in others), "only an indented line continues another"
    if form is PlainLines:
        assert others
        assert "RuntimeError: 401" in "\n".join(others) or "401" not in text
