"""A line at the end of a reply must not swallow what the model whispers behind it."""

import pytest

from finclaw.delivery.control import extract_control
from finclaw.finance.extension import disclose_demo
from finclaw.tools.last_line import with_last_line


@pytest.mark.spec("K-01")
@pytest.mark.parametrize("tail", ["", "\n<<NEED_INPUT>>", "\n\n<<ATTACH_QUOTE>>\n<<NEED_INPUT>>\n"])
def test_the_last_line_stands_before_the_whispers(tail: str) -> None:
    said, heard = extract_control(with_last_line("Which account?" + tail, "(a note)"))
    assert said.rstrip() == "Which account?\n\n(a note)"
    assert len(heard) == tail.count("<<")


@pytest.mark.parametrize("silent", ["", "  \n", "<<NO_REPLY>>", "\n<<SILENT_REPLY>>\n"])
def test_nothing_is_added_to_silence(silent: str) -> None:
    assert with_last_line(silent, "(a note)") == silent


def test_the_demo_line_lets_the_model_be_heard() -> None:
    said, heard = extract_control(disclose_demo("It is 71,000 won. Which account?\n<<NEED_INPUT>>", "price?"))
    assert heard == {"NEED_INPUT"}
    assert "<<" not in said
