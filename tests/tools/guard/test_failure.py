"""An error's message passes, its stack trace does not."""

import traceback

import pytest

from finclaw.tools.guard import guard, without_traceback


def python_trace() -> str:
    try:
        try:
            raise KeyError("inner")
        except KeyError as error:
            raise ValueError("the symbol is unknown") from error
    except ValueError:
        return traceback.format_exc()


@pytest.mark.spec("RG-11", "T-16")
def test_a_traceback_goes_and_the_message_stays():
    said = guard(f"quote failed\n{python_trace()}", is_error=True).content
    assert "the symbol is unknown" in said
    assert "quote failed" in said
    assert ".py" not in said
    assert "Traceback" not in said
    assert "raise" not in said


@pytest.mark.spec("RG-11")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("TypeError: no\n    at foo (/srv/a.js:1:2)\n    at /srv/b.js:3:4", "TypeError: no"),
        ("java.lang.Error: no\n\tat x.Y.z(Y.java:12)\n\t... 3 more", "java.lang.Error: no"),
        (python_trace().replace("\n", "\\n"), None),
    ],
)
def test_other_traces_go_too(text: str, message: str | None):
    said = without_traceback(text)
    assert "/srv" not in said
    assert "File" not in said
    assert message is None or said == message


@pytest.mark.parametrize("text", ["plain words", "two\nlines", "", "look at 5 (five)", "File not found: a.txt", "\n"])
def test_an_error_without_a_trace_is_left_alone(text: str):
    assert without_traceback(text) == text
