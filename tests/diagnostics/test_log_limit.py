"""Security trial H12c: a line that repeats is counted, not written."""

import io
import logging

from finclaw.diagnostics.log import OTHERS, WARNINGS, WINDOW, RepeatLimit


class Log:
    def __init__(self) -> None:
        self.time = 0.0
        self.stream = io.StringIO()
        handler = logging.StreamHandler(self.stream)
        self.limit = RepeatLimit(handler, lambda: self.time)
        handler.addFilter(self.limit)
        self.logger = logging.Logger("finclaw.limited")
        self.logger.addHandler(handler)

    @property
    def lines(self) -> list[str]:
        return self.stream.getvalue().splitlines()


def test_a_repeated_warning_is_written_a_few_times_and_then_counted() -> None:
    log = Log()
    for number in range(20_000):
        log.logger.warning("wrong token, number %d", number)
    assert len(log.lines) == WARNINGS
    assert log.lines[0] == "wrong token, number 0"
    log.time = WINDOW
    log.logger.warning("something else")
    assert log.lines[WARNINGS:] == [
        f"repeated {20_000 - WARNINGS:,} times more within 10 s, not shown: wrong token, number %d",
        "something else",
    ]


def test_text_that_a_stranger_varies_is_one_kind_by_its_line_of_code() -> None:
    log = Log()
    for number in range(1_000):
        log.logger.error(f"accept() failed on {number}")
    assert len(log.lines) == WARNINGS


def test_a_trace_is_dropped_with_its_line() -> None:
    log = Log()
    for _ in range(1_000):
        try:
            raise OSError(24, "Too many open files")
        except OSError:
            log.logger.exception("socket.accept() out of system resource")
    assert sum(line.startswith("OSError") for line in log.lines) == WARNINGS


def test_other_lines_are_not_held_back() -> None:
    log = Log()
    for number in range(2 * WARNINGS):
        log.logger.warning("one %d", number)
    log.logger.warning("another %d", 1)
    log.logger.error("one %d", 1)
    assert log.lines[-2:] == ["another 1", "one 1"]


def test_the_lines_of_many_messages_are_all_there() -> None:
    log = Log()
    log.logger.setLevel(logging.INFO)
    for number in range(OTHERS):
        log.logger.info("message %d was answered", number)
    assert len(log.lines) == OTHERS


def test_what_was_dropped_is_told_at_the_end() -> None:
    log = Log()
    for _ in range(WARNINGS + 3):
        log.logger.warning("again %s", "and again")
    log.limit.write_summaries(at_exit=True)
    assert log.lines[-1] == "repeated 3 times more within 10 s, not shown: again %s"
