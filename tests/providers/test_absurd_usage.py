"""A server whose report of tokens makes no sense: its answer is read all the same."""

import pytest

from finclaw.kernel.chunk import Chunk, UsageReport
from finclaw.providers.anthropic.answer import AnthropicAnswerReader
from finclaw.providers.openai.answer import OpenAIAnswerReader

OPENAI = '{"choices":[{"delta":{"content":"hi"},"finish_reason":"stop"}],"usage":%s}'
ANTHROPIC = '{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":%s}'


def reports(kind: str, usage: str) -> list[Chunk]:
    """Raises StreamCut for an event that cannot be read."""
    if kind == "openai":
        chunks = OpenAIAnswerReader("x").read(b"", (OPENAI % usage).encode())
    else:
        chunks = AnthropicAnswerReader("x").read(b"message_delta", (ANTHROPIC % usage).encode())
    return [each for each in chunks if isinstance(each, UsageReport)]


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
@pytest.mark.parametrize(
    ("figure", "read"),
    [
        ("12", 12),
        ('"12"', 12),
        ("12.0", 12),
        ('"10000000000000000000"', 2**53),
        ("12.7", 12),
        ("1e19", 2**53),
        ("1" + "0" * 4_000, 2**53),
        ("-5", 0),
        *((figure, 0) for figure in ("NaN", "-Infinity", "1e400", "9" * 5_000, '"n/a"', "true", "[1]", "{}", "null")),
    ],
)
def test_absurd_figures_do_not_cost_the_answer(kind: str, figure: str, read: int) -> None:
    names = ("prompt_tokens", "completion_tokens") if kind == "openai" else ("input_tokens", "output_tokens")
    (report,) = reports(kind, f'{{"{names[0]}": {figure}, "{names[1]}": 3}}')
    assert isinstance(report, UsageReport)
    assert (report.usage.input, report.usage.output) == (read, 3)


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
@pytest.mark.parametrize("usage", ['"n/a"', "[]", "5", "{}"])
def test_a_report_that_is_no_object_is_passed_over(kind: str, usage: str) -> None:
    assert not reports(kind, usage)
