"""A line at the end of a reply must not swallow what the model whispers behind it."""

import pytest

from finclaw.finance.extension import disclose_demo
from finclaw.tools.control_tokens import extract_control_tokens, with_last_line


@pytest.mark.spec("K-01")
@pytest.mark.parametrize("tail", ["", "\n<<NEED_INPUT>>", "\n\n<<ATTACH_QUOTE>>\n<<NEED_INPUT>>\n"])
def test_the_last_line_stands_before_the_whispers(tail: str) -> None:
    heard = extract_control_tokens(with_last_line("Which account?" + tail, "(a note)"))
    assert heard.clean_content.rstrip() == "Which account?\n\n(a note)"
    assert len(heard.tokens) == tail.count("<<")


@pytest.mark.parametrize("silent", ["", "  \n", "<<NO_REPLY>>", "\n<<SILENT_REPLY>>\n"])
def test_nothing_is_added_to_silence(silent: str) -> None:
    assert with_last_line(silent, "(a note)") == silent


def test_the_demo_line_lets_the_model_be_heard() -> None:
    heard = extract_control_tokens(disclose_demo("It is 71,000 won. Which account?\n<<NEED_INPUT>>", "price?"))
    assert heard.tokens == ("NEED_INPUT",)
    assert "<<" not in heard.clean_content
