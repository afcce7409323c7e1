"""How much of an answer makes a block."""

import pytest

from finclaw.pipeline.reply_sequencer import block_length
from finclaw.pipeline.settings import BlockSettings

SIZES = BlockSettings()
SENTENCE = "Thirty characters, and a stop. "


def paragraphs(*lengths: int) -> str:
    return "".join(("x" * (length - 3)) + ".\n\n" for length in lengths)


@pytest.mark.spec("BS-01")
def test_small_pieces_wait_until_they_are_a_readable_block() -> None:
    text, sent = "", list[int]()
    for _ in range(200):
        text += SENTENCE
        if length := block_length(text, SIZES):
            sent.append(length)
            text = text[length:]
    assert len(sent) > 3
    assert all(SIZES.shortest <= length <= SIZES.longest for length in sent)


@pytest.mark.spec("BS-01")
def test_a_block_ends_with_a_paragraph_where_there_is_one() -> None:
    text = paragraphs(300, 300, 300, 150, 400)
    assert block_length(text, SIZES) == 1_050, "the last end between the shortest and the longest"
    assert block_length(paragraphs(300, 300), SIZES) == 0
    assert block_length(paragraphs(500, 2_000), SIZES) == 500, "rather too short than in the middle of a paragraph"


@pytest.mark.spec("BS-01")
def test_what_nobody_adds_to_is_sent_but_no_single_sentence() -> None:
    assert block_length(SENTENCE * 10, SIZES, idle=True) == len(SENTENCE * 10)
    assert block_length(SENTENCE, SIZES, idle=True) == 0


@pytest.mark.spec("BS-05")
def test_without_gathering_pieces_go_as_they_come() -> None:
    assert block_length("One. ", BlockSettings(gather=False)) == 5


def test_code_is_not_cut() -> None:
    code = "```\n" + "line\n\n" * 300 + "```\n"
    text = paragraphs(100) + code + paragraphs(100)
    assert block_length(text, SIZES) == 100, "before the code"
    assert block_length(code, SIZES) == len(code)
