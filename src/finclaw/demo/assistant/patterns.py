"""Sentences that the assistant understands: a table of patterns for each language, each for a whole sentence.

`{n}` is a name or several, `{m}` a market, `{z}` a city, and `<period>` a token of `tokens.py`. The first pattern that
fits wins. A word that is in no pattern becomes part of a name, and no instrument goes by a name with it.
"""

import re
from collections.abc import Mapping
from functools import cache
from itertools import count
from typing import Final

from msgspec import Struct

from finclaw.demo.assistant.tokens import Sentence, clean_text, read_sentence
from finclaw.finance.hours import find_venue
from finclaw.numerals.tables import FIAT, find_currency
from finclaw.text import language_of


class Question(Struct, frozen=True, kw_only=True):
    """What a sentence asks for: a tool, or one of `POLITE`, and the values of the slots."""

    tool: str
    slots: Mapping[str, str] = {}
    is_bare: bool = False
    """It names something and says nothing else."""
    is_follow_up: bool = False


QUOTE: Final = "market__quote"
HISTORY: Final = "market__history"
CHART: Final = "market__chart"
COMPARE: Final = "market__compare"
HOURS: Final = "market__hours"
CALENDAR: Final = "market__calendar"
NEWS: Final = "market__news"
CONVERT: Final = "fx__convert"


_NOUN: Final = (
    r"(?:(?:current|latest|stock|share|closing|previous|last|trading|exchange) )*"
    r"(?:prices?|quotes?|value|costs?|stocks?|shares?|volume|close|rate)"
)
_IS: Final = r"what(?:'s| is| are|s| was| were) "
_WHEN: Final = r"(?: <period>| <date>)?"
_MOVED: Final = (
    r"(?:been )?(?:done|do|doing|perform(?:ed|ing)?|moved?|moving|changed?|changing|gain(?:ed)?|los[et]|ris(?:e|en|ing)"
    r"|rose|fall(?:en)?|fell|trad(?:e|ed|ing)|close|up|down)(?: at)?"
)
_ON: Final = r"(?: <tomorrow>| <date>| <holiday>)"
_LIST: Final = r"(?:my |the )?watch ?list"
_ENGLISH: Final = (
    ("greeting", r"hi|hello|hey|good (?:morning|afternoon|evening)"),
    ("thanks", r"thanks|thank you|thx"),
    ("bye", r"bye|goodbye|see you"),
    ("help", r"help|what can (?:you|i) (?:do|ask)|who are you|what are you"),
    ("time__now", r"what(?:'s| is) the (?:time|date)(?: in {z})?|what (?:time|day|date) is(?: it)?(?: in {z})?"),
    ("watch__list", rf"(?:what(?:'s| is) on )?{_LIST}"),
    ("watch__add", rf"(?:add|put) {{n}} (?:to|on) {_LIST}|watch {{n}}"),
    ("watch__remove", rf"(?:remove|delete|take) {{n}} (?:from|off) {_LIST}|unwatch {{n}}"),
    ("portfolio__show", r"(?:how is |what(?:'s| is) in )?(?:my |the )?(?:portfolio|holdings)(?: doing)?(?: <in>)?"),
    (NEWS, r"(?:(?:any|the|latest|recent|market) )*(?:news|headlines)(?: (?:about|on|for|of|from) {n})?"),
    (NEWS, r"(?:(?:any|the|latest) )*{n}(?:'s)? (?:latest |recent )?(?:news|headlines)"),
    (HOURS, rf"(?:is|are) {{m}} (?:still |already )?(?:open|closed|trading){_ON}?"),
    (HOURS, rf"(?:when|what time) (?:does|do|will|is) {{m}} (?:next )?(?:open|close|opening|closing){_ON}?"),
    (HOURS, rf"(?:does|do|will) {{m}} (?:be )?(?:open|close)(?: late| early)?{_ON}"),
    (HOURS, rf"{{m}}(?:'s)? (?:trading |market |opening )?hours{_ON}?|(?:trading |opening )?hours (?:of|for) {{m}}"),
    (HOURS, r"<holiday> {m} (?:trading )?hours|(?:when(?:'s| is) )?<holiday>"),
    (CALENDAR, r"(?:when(?:'s| is| are) )?(?:the )?(?:next )?(?:{m} )?holidays?|holidays (?:of|for|in) {m}"),
    (CONVERT, r"(?:convert |change |how much (?:is|are) |what(?:'s| is| are) )?<amount>(?: worth)?(?: <in>)?"),
    (CONVERT, r"<in> (?:is|are|for|in) <amount>"),
    (CHART, rf"(?:an? |the )?(?:<period> )?(?:price )?chart (?:of|for) {{n}}{_WHEN}|chart {{n}}{_WHEN}"),
    (CHART, rf"(?:an? )?(?:{{n}}(?:'s)? )?(?:<period> )?(?:price |stock )?chart{_WHEN}"),
    (COMPARE, rf"compare {{n}}{_WHEN}|(?P<name>[^<>]+? (?:vs\.?|versus) [^<>]+?){_WHEN}"),
    (COMPARE, r"which (?:one )?(?:did|has done|performed) better(?: <period>)? ?,? {n}"),
    (QUOTE, r"(?:how much (?:is|are|for|do|does|would) |what (?:is|are|do|does) |(?:price|cost|value) (?:of|for) )?"
              r"<quantity>(?: {n})?(?: cost| worth)?(?: <in>)?|{n} <quantity>(?: <in>)?"),
    (HISTORY, r"(?:<period> )?(?P<extremes>highs?|lows?|range) (?:of|for) {n}(?: <period>)?|<period> {n}(?: price)?"),
    (HISTORY, r"{n}(?:'s)? (?:<period> )?(?P<extremes>highs?|lows?|range)(?: <period>)?"),
    (HISTORY, rf"(?:how|what|how much) (?:has|have|had|did|is|was|are|were) {{n}} {_MOVED}{_WHEN}"),
    (HISTORY, rf"{{n}}(?:'s)? (?:performance|returns?|changes?|history|trend){_WHEN}|what is its change{_WHEN}"),
    (QUOTE, rf"(?:{_IS})?(?:the )?{_NOUN} (?:of|for) {{n}}(?: <in>|{_WHEN})"),
    (QUOTE, rf"(?:{_IS})?(?:the )?{{n}}(?:'s|')? {_NOUN}(?: <in>|{_WHEN})"),
    (QUOTE, rf"how much (?:is|are|does|do|was) {{n}}(?: cost| worth| trading at)?(?: <in>|{_WHEN})"),
    (QUOTE, rf"{_IS}{{n}}(?: trading)?(?: at| worth)?(?: <in>| <period>| <date>)|{_IS}{{n}} (?:trading at|at|worth)"),
    (QUOTE, r"what {n} is (?:worth|trading at)|how(?:'s| is| are) {n}(?: doing| trading)?|about {n}"),
    (QUOTE, r"(?:{n} ?)?(?:<in>|<period>|<date>)|(?P<bare>{n})"),
)  # fmt: skip


_P: Final = "(?:은|는|이|가|을|를|의|도)?"
_PRICE_KO: Final = f"(?: ?(?:주식 ?)?(?:주가|시세|가격|현재가|종가|값|거래량|주식){_P})"
_CHANGE_KO: Final = f"(?: ?(?:주가 ?)?(?:수익률|등락률?|변동률?|추이|흐름|성적|동향|변화){_P})"
_BE: Final = "(?:야|예요|에요|이야|이에요|인가요?|인지|임|니|냐|지|죠|일까요?|입니까|였어요?|였지|였나요?)"
_ASK: Final = (
    f"(?: ?(?:얼마나?|얼만데?|몇)(?: ?{_BE}| ?해| ?하나요)?| ?(?:어때|어땠어)요?| ?어떤가요?| ?뭐{_BE}"
    "| ?어떻게 (?:돼|되나|됐어)요?)"
)
_END: Final = "(?:어요?|니|나요?|냐|지|습니까|는지)"
_MOVED_KO: Final = f"(?: ?(?:얼마나 ?|많이 ?|뭐 ?)*(?:올랐|내렸|떨어졌|움직였|변했|했|상승했|하락했){_END})"
_WHEN_KO: Final = "(?:<period> |<date> )"
_ON_KO: Final = "(?:<tomorrow> <holiday> |<tomorrow> |<date> |<holiday> )?"
_HOURS_KO: Final = f"{_ON_KO}(?:{{m}} ?)?{_ON_KO}"
_OPEN_KO: Final = (
    "(?:열려|열렸|열리|열었|열어|열|여|닫혀|닫혔|닫히|닫|개장|폐장|마감|시작|끝나|끝났|끝|쉬어|쉬|휴장|거래)"
    f"(?: ?(?:해|하|했|돼|되|됐|있)?(?:{_END}|{_BE}|요|는가요?|을까요?|한가요?)?)?"
)
_LIST_KO: Final = "(?:(?:내|제|나의) ?)?관심 ?종목"
_KOREAN: Final = (
    ("greeting", "안녕(?:하세요)?|하이|반가워요?"),
    ("thanks", "고마워요?|고맙습니다|감사(?:해요|합니다)"),
    ("bye", "안녕히 ?(?:가세요|계세요)|잘 ?가"),
    ("help", "도움말?|도와|사용법|뭐 ?(?:할|해줄) ?(?:수 있|줄 알)(?:어|아)요?|누구(?:야|세요)"),
    ("time__now", f"(?:{{z}} )?(?:몇 ?시|며칠|무슨 ?요일|몇 ?월 ?며칠){_BE}?|날짜{_P}"),
    ("watch__add", f"(?:{_LIST_KO}에 {{n}}|{{n}} ?{_LIST_KO}에) ?(?:추가|등록|넣어)(?:해)?"),
    ("watch__remove", f"(?:{_LIST_KO}에서 {{n}}|{{n}} ?{_LIST_KO}에서) ?(?:삭제|제거|빼|지워)(?:해)?"),
    ("watch__list", f"{_LIST_KO}(?: ?목록)?{_P}"),
    ("portfolio__show", f"(?:(?:내|제|나의) ?)?(?:포트폴리오|포폴|보유 ?종목|보유 ?주식|잔고){_P}(?: <in>)?{_ASK}?"),
    (NEWS, "(?:최신 ?|시장 ?)?(?:뉴스|헤드라인)|{n} ?(?:관련 ?|최신 ?)?(?:뉴스|소식|기사)"),
    (HOURS, f"{_HOURS_KO}(?:아직 ?|벌써 ?)?(?:언제 ?|몇 ?시(?:에|부터|까지)? ?)?{_OPEN_KO}"),
    (HOURS, f"{_HOURS_KO}(?:개장|폐장|마감|거래|장) ?(?:시간|시작|마감)?{_P} ?(?:(?:언제|몇 ?시){_BE}?|{_ASK})?"),
    (CALENDAR, f"(?:{{m}} ?)?(?:다음 ?)?(?:휴장일|휴일|공휴일|쉬는 ?날){_P}(?: ?언제{_BE}?|{_ASK})?"),
    (CALENDAR, f"<holiday> (?:{{m}} ?)?(?:휴장일|휴장|쉬는 ?날){_P} ?{_BE}?|<holiday>(?: ?언제{_BE}?)?"),
    (CONVERT, f"<amount>(?: <in>)?(?: ?(?:환전|환산|바꾸|계산)(?:하면|해|면|하나요)?)?{_ASK}?"),
    (CHART, "{n} ?(?:<period> )?(?:주가 ?)?차트|<period> {n} ?차트|(?:<period> )?차트"),
    (COMPARE, f"(?:<period> )?{{n}}(?: <period>)?(?:{_CHANGE_KO}|{_PRICE_KO})? ?비교(?:해|하면)?"),
    (COMPARE, "(?:<period> )?{n} 중(?:에서|에)? ?(?:<period> )?(?:뭐|누|어느 ?쪽|어느 ?게|어떤 ?게|어디)[가이]? ?더 ?"
                f"(?:많이 ?)?(?:올랐|내렸|떨어졌){_END}"),
    (QUOTE, f"(?:{{n}} )?<quantity>(?: ?가격| ?값)?{_P}(?: <in>)?{_ASK}?|{{n}} <in> <quantity>{_ASK}?"),
    (HISTORY, f"(?:<period> )?{{n}}(?: <period>)? ?(?P<extremes>최고가|최저가|고가|저가|고점|저점){_P}{_ASK}?"),
    (HISTORY, f"{{n}} <period>{_PRICE_KO}?(?:{_CHANGE_KO}{_ASK}?|{_MOVED_KO})"),
    (HISTORY, f"(?:<period> )?{{n}}(?:{_CHANGE_KO}{_ASK}?|{_MOVED_KO})|<period>(?:{_CHANGE_KO}|{_MOVED_KO})"),
    (QUOTE, f"(?:<in>|<period>|<date>)(?:{_PRICE_KO}?{_ASK})?"),
    (QUOTE, f"{_WHEN_KO}?{{n}}(?:{_PRICE_KO}{_ASK}?|{_ASK})|{{n}} {_WHEN_KO}(?:{_PRICE_KO}{_ASK}?|{_ASK})"),
    (QUOTE, f"{{n}} <in>{_PRICE_KO}?{_ASK}?|{{n}}{_PRICE_KO} <in>{_ASK}?|{_WHEN_KO}{{n}}"),
    (QUOTE, "{n} (?:<period>|<date>)|(?P<bare>{n})"),
)  # fmt: skip


_LACKING: Final = (
    (r"\bp/?e\b|(?-i:\bPER\b)|(?<=[가-힣] )per\b|^per\b|주가수익비율", "P/E ratios", "PER"),
    (r"\bpbr?\b|\bp/b\b|주가순자산비율", "P/B ratios", "PBR"),
    (r"\beps\b|주당 ?순이익", "earnings per share", "EPS"),
    (r"\bro[ea]\b|자기자본이익률", "returns on equity", "ROE"),
    (r"\bmarket cap(?:itali[sz]ation)?\b|시가총액|시총", "market capitalisations", "시가총액"),
    (r"\bdividends?\b|배당", "dividends", "배당"),
    (r"\bearnings?\b|\brevenues?\b|\bprofits?\b|실적|매출|영업이익|순이익", "company results", "실적"),
    (r"\bbeta\b|\bvolatil\w+|베타|변동성", "volatility figures", "변동성"),
    (r"\bat open\b|\bopening price\b|\bopened at\b|시가(?!총)|시초가", "opening prices", "시가"),
    (r"\b(?:pre|after)[- ]?(?:market|hours)\b|시간외", "prices outside the session", "시간외 시세"),
    (r"\bprice targets?\b|목표 ?주가|목표가", "price targets", "목표 주가"),
    (r"\b(?:forecasts?|predict\w*|outlook)\b|전망|예측", "forecasts", "전망"),
)


POLITE: Final = ("greeting", "thanks", "bye", "help")
LACKING: Final = "lacking"
PATTERNS: Final = {"en": _ENGLISH, "ko": _KOREAN}
_SLOTS: Final = {"n": ("name", "[^<>]+?"), "m": ("market", "[^<>]*?"), "z": ("city", "[^<>]+")}
_NOT_IN_NAME: Final = re.compile(
    r"\b(?:not|without|except|minus|than|why|but|if|should|since|before|after|until|between|from|ago|per|both|them)\b"
    r"|'s | / |[?!;]|말고|빼고|보다|왜|제외|어제|작년|요일|둘|(?:개월|달|년|일|주) ?전"
    r"|^(?:the|an?|my|your|any|every|all|yes|yeah|ok(?:ay)?|no|nope|neither|none|네|예|응|아니요?|아니오)$"
)
_THAT: Final = re.compile("it|its|that|this|그거|그건|그게|그것", re.IGNORECASE)
_MARKET: Final = re.compile(
    r" ?(?:(?:주식 ?)?(?:시장|거래소)|증시|장)(?:은|는|이|가|도)?$|(?:^| )(?:stock )?(?:markets?|exchange|trading)$"
)


def read_question(text: str) -> Question | None:
    """What a message asks; None if no pattern fits it."""
    cleaned = clean_text(text)
    sentence = read_sentence(cleaned)
    if sentence is None:
        return None
    for pattern, english, korean in _LACKING:
        if re.search(pattern, cleaned, re.IGNORECASE | re.ASCII):
            return Question(tool=LACKING, slots={"en": english, "ko": korean})
    for tool, pattern in PATTERNS[language_of(cleaned)]:
        found = compile_pattern(pattern).fullmatch(cleaned if tool in POLITE else sentence.text)
        if found and (question := _fill_slots(tool, sentence, found)):
            return question
    return None


@cache
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """A slot may stand in several branches of a pattern, so its groups are numbered."""
    numbers = count()

    def write_group(slot: re.Match[str]) -> str:
        name, text = _SLOTS[slot[1]]
        return f"(?P<{name}{next(numbers)}>{text})"

    return re.compile(re.sub(r"\{([nmz])\}", write_group, pattern), re.IGNORECASE)


def _fill_slots(tool: str, sentence: Sentence, found: re.Match[str]) -> Question | None:
    """The question of a sentence that fits a pattern; None if a slot holds what it cannot mean."""
    given = {name.rstrip("0123456789"): text.strip() for name, text in found.groupdict().items() if text}
    extremes = given.pop("extremes", "")
    bare = given.pop("bare", "")
    slots = {**given, **sentence.slots}
    slots |= {"name": _read_names(given.get("name", "")), "market": _read_market(given.get("market", ""))}
    if _NOT_IN_NAME.search(slots["name"]) or _NOT_IN_NAME.search(slots["market"]):
        return None
    is_that = any(map(_THAT.fullmatch, slots.values()))
    is_again = is_that or sentence.is_follow_up or re.search("[가-힣][은는도]$", bare) is not None
    is_timed = "period" in slots or "date" in slots
    if is_timed and (sentence.is_now or re.search("volume|거래량", sentence.text)):
        return None
    if extremes and (slots.get("period") == "yesterday" or not (is_timed or sentence.is_now)):
        return None  # there is one close of a day, and no time of which there is a highest one
    if tool == HISTORY and sentence.is_now:
        slots["period"] = "day"
    slots = {slot: value for slot, value in slots.items() if value and not _THAT.fullmatch(value)}
    tool = _find_tool(tool, slots)
    return Question(tool=tool, slots=slots, is_bare=bool(bare), is_follow_up=is_again) if tool else None


def _find_tool(tool: str, slots: dict[str, str]) -> str:
    """The tool that the slots ask for; "" if there is none."""
    is_timed = "period" in slots or "date" in slots
    base = find_currency(slots.get("name", ""))
    if tool == QUOTE and "currency" in slots and base in FIAT:
        slots |= {"amount": "1", "base": slots.pop("name") and base}
        return CONVERT
    if tool in (QUOTE, HISTORY):
        return HISTORY if is_timed else QUOTE
    if tool == HOURS and "holiday" in slots:
        slots.pop("tomorrow", "")
        return CALENDAR
    if tool == COMPARE and any(find_currency(word) in FIAT for word in slots.get("name", "").split()):
        return ""
    return tool


def _read_names(text: str) -> str:
    """Names as they are looked up."""
    text = re.sub(r"^(?:the|an?|one) (?=\S)|(?<=\w)'s?$", "", text, flags=re.IGNORECASE)
    return re.sub(r" (?:vs\.?|versus) ", " vs ", text, flags=re.IGNORECASE)


def _read_market(text: str) -> str:
    """The code of a market, or something that trades there; "" for "the market"."""
    text = re.sub(r"^(?:the|any) (?=\S)", "", text, flags=re.IGNORECASE)
    shorter = _MARKET.sub("", text).strip()
    venue = find_venue(text) or find_venue(shorter)
    return venue.code if venue else shorter
