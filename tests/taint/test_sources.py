"""Whose words a conversation holds."""

import pytest

from finclaw.taint.sources import limit_sources, unquoted_part, written_by


@pytest.mark.parametrize("pages", [0, 3, 49, 50, 51, 500])
def test_who_wrote_is_kept_however_many_pages_were_read(pages: int) -> None:
    """Security trial H10, sibling: fifty pages must not push out that eve wrote in the chat."""
    sources = [written_by("eve"), *(f"web__fetch {number}" for number in range(pages))]
    kept = limit_sources(sources, 50)
    assert written_by("eve") in kept
    assert len(kept) == min(pages + 1, 50)
    assert not pages or f"web__fetch {pages - 1}" in kept, "the newest"


def test_of_very_many_people_the_last_are_kept() -> None:
    sources = [written_by(str(number)) for number in range(60)]
    assert limit_sources(sources, 50) == sources[10:]


@pytest.mark.parametrize(
    ("text", "own"),
    [
        ("mine\n> theirs\nmine too", "mine\n\nmine too"),
        ("mine\n----- Original Message -----\ntheirs\nand more", "mine\n"),
        ("mine\n----- 원본 메일 -----\ntheirs", "mine\n"),
        ("mine\r\n\u200b＞ theirs\u2028theirs\rtheirs\r\nmine too", "mine\r\n\nmine too"),
        ("mine\nBegin forwarded message:\n\ntheirs", "mine\n"),
        ("a > b", "a > b"),
    ],
)
def test_what_is_quoted_is_not_their_own(text: str, own: str) -> None:
    assert unquoted_part(text) == own
