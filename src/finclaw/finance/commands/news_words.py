"""Headlines as a person reads them: title, publisher, time and link. They are shown to the letter, without markup."""

from collections.abc import Sequence
from datetime import UTC, tzinfo

from finclaw.finance.commands.words import title_of, write_moment, write_source
from finclaw.finance.instrument import Instrument
from finclaw.finance.market import DEMO_SOURCE
from finclaw.finance.market_data.port import NewsItem
from finclaw.text import Language


def describe_news(
    instrument: Instrument | None, items: Sequence[NewsItem], where: tzinfo | None, language: Language
) -> str:
    about = title_of(instrument, language) if instrument else ""
    if not items:
        if language == "ko":
            return f"{about} 관련 최근 뉴스가 없습니다." if about else "최근 발표가 없습니다."
        return f"There are no recent headlines about {about}." if about else "There are no recent press releases."
    is_demo = any(each.source == DEMO_SOURCE for each in items)
    heading = _heading(about, is_demo=is_demo, language=language)
    blocks = [_describe_item(each, where or UTC, language) for each in items]
    source = write_source(", ".join(dict.fromkeys(each.source for each in items)), language)
    if is_demo:
        told = "데모 시장의 지어낸 제목입니다. 실제 뉴스가 아닙니다." if language == "ko" else "Made up: no real news."
    else:
        told = (
            "제목과 링크만 전해 드리며, 내용은 각 매체의 것입니다."
            if language == "ko"
            else "Headlines and links alone; what they say is their publishers'."
        )
    label = "출처" if language == "ko" else "Source"
    return "\n\n".join([heading, *blocks, f"{label}: {source}. {told}"])


def _heading(about: str, *, is_demo: bool, language: Language) -> str:
    """Of the whole market, only central banks publish for everybody."""
    if language == "ko":
        return f"{about} 뉴스" if about else "시장 뉴스" if is_demo else "중앙은행 발표"
    return f"News about {about}" if about else "Market news" if is_demo else "From the central banks"


def _describe_item(item: NewsItem, where: tzinfo, language: Language) -> str:
    told = " · ".join(filter(None, (write_source(item.publisher, language), write_moment(item.published_at, where))))
    return f"{item.title}\n{told}\n{item.url}"
