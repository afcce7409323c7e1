"""The corpus: every question does what it should, in the right language, with no number out of the air."""

import pytest
from tests.demo.corpus import ENGLISH, HOSTILE, KOREAN, cases
from tests.demo.figures import unexplained, wrong_language
from tests.demo.talk import Talk

from finclaw.text import language_of


@pytest.mark.parametrize(("text", "did"), cases(ENGLISH))
async def test_in_english(text: str, did: str) -> None:
    said = await Talk().say(text)
    assert said.did == did
    assert not unexplained(said)
    assert not wrong_language(said, "en")


@pytest.mark.parametrize(("text", "did"), cases(KOREAN))
async def test_in_korean(text: str, did: str) -> None:
    said = await Talk().say(text)
    assert said.did == did
    assert not unexplained(said)
    assert not wrong_language(said, "ko")


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
async def test_whatever_is_thrown_at_it(text: str) -> None:
    said = await Talk().say(text)
    assert said.reply
    assert len(said.reply) < 4_000
    assert not any(line.strip().startswith("<<") for line in said.reply.splitlines())
    assert not unexplained(said)
    assert not wrong_language(said, language_of(text))


def test_the_corpus_is_large_enough() -> None:
    assert min(len(cases(ENGLISH)), len(cases(KOREAN))) >= 60
