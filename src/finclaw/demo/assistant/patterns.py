"""Sentences that the assistant understands: a table of patterns for each language, each for a whole sentence.

Tokens (dates, periods, amounts, numbers of shares, holidays, currencies) are read first: `apple last month in won`
becomes `apple <period> <in>`. In a pattern `{n}` is a name or several and `{m}` a market. The first pattern that
fits wins. A word that is in no pattern becomes part of a name, and no instrument goes by a name with it.
"""

import re
import unicodedata
from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from functools import cache
from itertools import count
from typing import Final

from msgspec import Struct

from finclaw.finance.answers import has_two_readings
from finclaw.finance.hours import find_venue
from finclaw.numerals.find import find_figures, read_value
from finclaw.numerals.tables import ENGLISH_CURRENCY, FIAT, KOREAN_CURRENCY, find_currency
from finclaw.text import language_of


class Question(Struct, frozen=True, kw_only=True):
    """What a sentence asks for: a kind from the table below, and the values of its slots."""

    kind: str
    slots: Mapping[str, str] = {}
    is_bare: bool = False
    """It names something and says nothing else."""
    is_follow_up: bool = False


def read_question(text: str) -> Question | None:
    """What a message asks; None if no pattern fits it."""
    cleaned = clean_text(text)
    tokens = read_tokens(cleaned)
    if tokens is None:
        return None
    for pattern, english, korean in _LACKING:
        if re.search(pattern, cleaned, re.IGNORECASE | re.ASCII):
            return Question(kind="lacking", slots={"en": english, "ko": korean})
    for kind, pattern in PATTERNS[language_of(cleaned)]:
        found = compile_pattern(pattern).fullmatch(cleaned if kind in SPOKEN else tokens["text"])
        if found and (question := _fill_slots(kind, tokens, found)):
            return question
    return None


@cache
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """A slot may stand in several branches of a pattern, so its groups are numbered."""
    numbers = count()

    def write_group(slot: re.Match[str]) -> str:
        name, text = _SLOTS[slot[1]]
        return f"(?P<{name}{next(numbers)}>{text})"

    return re.compile(re.sub(r"\{([nm])\}", write_group, pattern), re.IGNORECASE)


def _fill_slots(kind: str, tokens: Mapping[str, str], found: re.Match[str]) -> Question | None:
    """The question of a sentence that fits a pattern; None if a slot holds what it cannot mean."""
    given = {name.rstrip("0123456789"): text.strip() for name, text in found.groupdict().items() if text}
    bare = given.pop("bare", "")
    name = re.sub(r"^(?:the|an?|one) (?=\S)|(?<=\w)'s?$", "", given.get("name", ""), flags=re.IGNORECASE)
    name = re.sub(r" (?:vs\.?|versus) ", " vs ", name, flags=re.IGNORECASE)
    slots = {**tokens, "name": name, "market": _read_market(given.get("market", ""))}
    if any(_NOT_IN_NAME.search(slots[slot]) for slot in ("name", "market")) or _SEVERAL.search(slots["market"]):
        return None
    text = slots.pop("text").casefold()
    is_now = slots.pop("now", "")
    is_follow_up = slots.pop("and", "")
    is_again = is_follow_up or any(map(_THAT.fullmatch, slots.values())) or re.search(r"[가-힣\d][은는도]$", bare)
    is_timed = "period" in slots or "date" in slots
    if is_timed and (is_now or "volume" in text or "거래량" in text):
        return None
    if "holiday" in slots and (is_now or ("tomorrow" in slots and slots["holiday"] != CSAT)):  # is it that day?
        return None
    if kind == "history" and is_now:
        slots["period"] = "day"
    slots = {slot: value for slot, value in slots.items() if value and not _THAT.fullmatch(value)}
    base = find_currency(slots.get("name", ""))
    if kind == "compare" and any(find_currency(word) in FIAT for word in slots.get("name", "").split()):
        return None
    if kind == "quote" and "in" in slots and base in FIAT:
        kind = "convert"
        del slots["name"]
        slots |= {"amount": "1", "base": base or ""}
    elif kind in ("quote", "history"):
        kind = "history" if is_timed or "period" in slots else "quote"
    elif kind == "hours" and "holiday" in slots:
        kind = "calendar"
    return Question(kind=kind, slots=slots, is_bare=bool(bare), is_follow_up=bool(is_again))


def _read_market(text: str) -> str:
    """The code of a market, or something that trades there; "" for "the market"."""
    if not text:
        return ""
    text = re.sub(r"^(?:the|any) (?=\S)", "", text, flags=re.IGNORECASE)
    shorter = _MARKET.sub("", text).strip()
    venue = find_venue(text) or find_venue(shorter)
    return venue.code if venue else shorter


def clean_text(text: str) -> str:
    """Composed Hangul, ASCII for full-width forms, no invisible characters, no marks at the end."""
    if len(text) > 4 * LONGEST:  # composing Hangul may leave a third of it
        return text
    text = unicodedata.normalize("NFKC", text)
    text = "".join(each for each in text if each == "\n" or unicodedata.category(each) not in ("Cf", "Cc", "Cs"))
    return text.replace("’", "'").strip(" \t\n.,!?~…。")


def read_tokens(text: str) -> dict[str, str] | None:
    """The tokens of a cleaned text, with the `text` around them.

    None if it is long, has a token twice, or an amount with two readings.
    """
    if len(text) > LONGEST or re.search(r"[<>\n]", text) or has_two_readings(text):
        return None
    for pattern in _COURTESY:
        text = re.sub(pattern, "", text, count=1, flags=re.IGNORECASE) or text
    tokens = {"text": text}
    for kind, pattern, read in _TOKENS:
        if kind == "quantity" and not _replace_amount(tokens):
            return None
        text = tokens["text"]
        matches = list(re.finditer(pattern, text, re.IGNORECASE))
        if len(matches) > 1:
            return None
        for match in matches:
            tokens[kind] = read(match)
            tokens["text"] = f"{text[: match.start()]} <{kind}> {text[match.end() :]}"
    for kind, pattern in (("now", _NOW), ("and", _AND)):
        tokens["text"], found = re.subn(pattern, " ", tokens["text"].strip(), flags=re.IGNORECASE)
        if found:
            tokens[kind] = kind
    tokens["text"] = " ".join(tokens["text"].split())
    return tokens


SPOKEN: Final = ("help", "thanks", "watch", "alerts", "advice")
"""Kinds that are answered with a fixed reply."""
_SLOTS: Final = {"n": ("name", "[^<>]+?"), "m": ("market", "[^<>]*?")}
_NOT_IN_NAME: Final = re.compile(
    r"\b(?:not|without|except|minus|than|why|but|if|should|since|before|after|until|between|from|ago|per|both|them)\b"
    r"|'s | / |[?!;]|말고|빼고|보다|왜|제외|어제|그저께|작년|내년|요일|둘|(?:개월|달|년|일|주) ?전"
    r"|(?i:\b(?:how|what|when|which|who|does|did|my|compare|watch ?list|prices|earnings?|revenues?)\b)"
    r"|(?i:\b(?:opened|opening|at open|profits?|(?:pre|after)[- ]?(?:market|hours))\b)|실적|매출|영업이익|순이익|시간외"
    r"|(?i:(?<!rowe )\bprice\b)|^(?:quote|cost|volume)$|^[\d ]+[-+*/^×÷%]|^(?:portfolio|compare|비교)"
    r"|얼마|언제|어때|어땠|몇 ?시|열[어었려렸]|닫[아았혀혔]|늦게|일찍|주가(?!지수)|시세|가격"
    r"|종가|시가|시초가|현재가|거래량|^모레|^뭐야|^몇이|^팔아|(?:다음|전) ?날|발표|(?:^| )(?:내|제|장[은이]?)(?= |$)"
    r"|^(?:the|an?|my|your|any|every|all|yes|yeah|ok(?:ay)?|no|nope|neither|none|네|예|응|아니요?|아니오"
    r"|bye|first|second|third|[첫두세] ?번째|\d{1,2}번?)$"
)
_SEVERAL: Final = re.compile("(?:랑|와|과|하고|,| and|한국|미국) ")
_THAT: Final = re.compile("it|its|that|this|그거|그건|그게|그것", re.IGNORECASE)
_MARKET: Final = re.compile(
    r" ?(?:(?:주식 ?)?(?:시장|거래소)|증시|장)(?:은|는|이|가|도)?$|(?:^| )(?:stock )?(?:markets?|exchange|trading)$"
)

_LACKING: Final = (
    (r"\bp/?e\b|(?-i:\bPER\b)|(?<=[가-힣] )per\b|^per\b|주가수익비율", "P/E ratios", "PER"),
    (r"\bpbr?\b|\bp/b\b|주가순자산비율", "P/B ratios", "PBR"),
    (r"\beps\b|주당 ?순이익", "earnings per share", "EPS"),
    (r"\bro[ea]\b|자기자본이익률", "returns on equity", "ROE"),
    (r"\bmarket cap(?:itali[sz]ation)?\b|시가총액|시총", "market capitalisations", "시가총액"),
    (r"\bdividends?\b|배당", "dividends", "배당"),
    (r"\bbeta\b|\bvolatil\w+|베타|변동성", "volatility figures", "변동성"),
    (r"\bprice targets?\b|목표 ?주가|목표가", "price targets", "목표 주가"),
    (r"\b(?:forecasts?|predict\w*|outlook)\b|전망|예측", "forecasts", "전망"),
)

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
_ON: Final = r"(?: <tomorrow>| <date>| <holiday>)?"
_ENGLISH: Final = (
    ("alerts", r".*\balerts?\b.*|(?:please )?notify me .+"),
    ("advice", r"(?:.* )?(?:should|shall|can|could) i (?:.* )?(?:buy|sell|hold|invest|short)\b.*|.*\brecommend.*"),
    ("advice", r"(?:please )?(?:buy|sell|short|invest in)\b.*|.*\b(?:worth buying|to (?:buy|sell)|good buy)\b.*"),
    ("thanks", r"thanks|thank you|thx"),
    ("help", r"hi|hello|hey|good (?:morning|afternoon|evening)"),
    ("help", r"help|what can (?:you|i) (?:do|ask)|who are you|what are you"),
    ("watch", r"(?:please )?(?:add|put|remove|delete|take) .+ (?:to|on|from|off) (?:my |the )?watch ?list"),
    ("time", r"what(?:'s| is) the (?:time|date)|what (?:time|day|date) is(?: it)?"),
    ("watchlist", r"(?:what(?:'s| is) on )?(?:my |the )?watch ?list"),
    ("portfolio", r"(?:how is |what(?:'s| is) in )?(?:my |the )?(?:portfolio|holdings)(?: doing)?(?: <in>)?"),
    ("news", r"(?:(?:any|the|latest|recent|market) )*(?:news|headlines)(?: (?:about|on|for|of|from) {n})?"),
    ("news", r"(?:(?:any|the|latest) )*{n}(?:'s)? (?:latest |recent )?(?:news|headlines)"),
    ("hours", rf"(?:is|are|does|do|will) {{m}} (?:be |still |already )?(?:open|closed?|trading)(?: late| early)?{_ON}"),
    ("hours", rf"(?:when|what time) (?:does|do|will|is) {{m}} (?:next )?(?:open|close|opening|closing){_ON}"),
    ("hours", rf"{{m}}(?:'s)? (?:trading |market |opening )?hours{_ON}|(?:trading |opening )?hours (?:of|for) {{m}}"),
    ("hours", r"<holiday> {m} (?:trading )?hours|(?:when(?:'s| is) )?<holiday>"),
    ("calendar", r"(?:when(?:'s| is| are) )?(?:the )?(?:next )?(?:{m} )?holidays?|holidays (?:of|for|in) {m}"),
    ("convert", r"(?:convert |change |how much (?:is|are) |what(?:'s| is| are) )?<amount>(?: worth)?(?: <in>)?"),
    ("convert", r"<in> (?:is|are|for|in) <amount>"),
    ("chart", rf"(?:an? |the )?(?:<period> )?(?:price )?chart (?:of|for) {{n}}{_WHEN}|chart {{n}}{_WHEN}"),
    ("chart", rf"(?:an? )?(?:{{n}}(?:'s)? )?(?:<period> )?(?:price |stock )?chart{_WHEN}"),
    ("compare", rf"compare {{n}}{_WHEN}|(?P<name>[^<>]+? (?:vs\.?|versus) [^<>]+?){_WHEN}"),
    ("quote", r"(?:how much (?:is|are|for|do|does|would) |what (?:is|are|do|does) |(?:price|cost|value) (?:of|for) )?"
              r"<quantity>(?: {n})?(?: cost| worth)?(?: <in>)?|{n} <quantity>(?: <in>)?"),
    ("history", r"<period> {n}(?: price)?"),
    ("history", rf"(?:how|what|how much) (?:has|have|had|did|is|was|are|were) {{n}} {_MOVED}{_WHEN}"),
    ("history", rf"{{n}}(?:'s)? (?:performance|returns?|changes?|history|trend){_WHEN}|what is its change{_WHEN}"),
    ("quote", rf"(?:{_IS})?(?:the )?{_NOUN} (?:of|for) {{n}}(?: <in>|{_WHEN})|(?:price|quote) {{n}}(?: <in>)?"),
    ("quote", rf"(?:{_IS})?(?:the )?{{n}}(?:'s|')? {_NOUN}(?: <in>|{_WHEN})"),
    ("quote", rf"how much (?:is|are|does|do|was) {{n}}(?: cost| worth| trading at)?(?: <in>|{_WHEN})"),
    ("quote", rf"what (?:does|do|did) {{n}} cost(?: <in>|{_WHEN})|how much"),
    ("quote", rf"{_IS}{{n}}(?: trading)?(?: at| worth)?(?: <in>| <period>| <date>)|{_IS}{{n}} (?:trading at|at|worth)"),
    ("quote", r"what {n} is (?:worth|trading at)|how(?:'s| is| are) {n}(?: doing| trading)?|about {n}"),
    ("quote", r"(?:{n} ?)?(?:<in>|<period>|<date>)|(?P<bare>{n})"),
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
_ON_KO: Final = "(?:(?:<tomorrow>|<period>) <holiday> |<tomorrow> |<date> |<holiday> )?"
_HOURS_KO: Final = f"{_ON_KO}(?:{{m}} ?)?{_ON_KO}"
_OPEN_KO: Final = (
    "(?:열려|열렸|열리|열었|열어|열|여|닫아|닫혀|닫혔|닫히|닫|개장|폐장|마감|시작|끝나|끝났|끝|쉬어|쉬|휴장|거래)"
    f"(?: ?(?:해|하|했|돼|되|됐|있)?(?:{_END}|{_BE}|요|는가요?|을까요?|한가요?)?)?"
)
_KOREAN: Final = (
    ("alerts", ".*(?:알림|알람).*|.*(?:으면|내려가면|떨어지면|오르면|되면) (?:알려|말해).*"),
    ("advice", ".*(?:살까|팔까|매수|매도|추천|살 ?만|팔아야).*|(?:.* )?(?:사도|팔아도|사야|사는 게).*"),
    ("advice", "(?:.* )?(?:사|팔아|구매해|주문해|투자해) ?(?:줘요?|주세요|줄래요?|라)"),
    ("thanks", "고마워요?|고맙습니다|감사(?:해요|합니다)"),
    ("help", "안녕(?:하세요)?|하이|반가워요?"),
    ("help", "도움말?|도와|사용법|뭐 ?(?:할|해줄) ?(?:수 있|줄 알)(?:어|아)요?|누구(?:야|세요)"),
    ("watch", ".*관심 ?종목에(?:서)? ?.*(?:추가|등록|넣어|삭제|제거|빼|지워)(?:해 ?)?(?: ?줘요?| ?주세요)?"),
    ("time", f"(?:몇 ?시|며칠|무슨 ?요일|몇 ?월 ?며칠){_BE}?|날짜{_P}"),
    ("watchlist", f"(?:(?:내|제|나의) ?)?관심 ?종목(?: ?목록)?{_P}"),
    ("portfolio", f"(?:(?:내|제|나의) ?)?(?:포트폴리오|포폴|보유 ?종목|보유 ?주식|잔고){_P}(?: <in>)?{_ASK}?"),
    ("news", "(?:최신 ?|시장 ?)?(?:뉴스|헤드라인)|{n} ?(?:관련 ?|최신 ?)?(?:뉴스|소식|기사)"),
    ("hours", f"{_HOURS_KO}(?:아직 ?|벌써 ?|늦게 ?|일찍 ?)?(?:언제 ?|몇 ?시(?:에|부터|까지)? ?)?{_OPEN_KO}"),
    ("hours", f"{_HOURS_KO}(?:개장|폐장|마감|거래|장) ?(?:시간|시작|마감)?{_P} ?(?:(?:언제|몇 ?시){_BE}?|{_ASK})?"),
    ("calendar", f"(?:{{m}} ?)?(?:다음 ?)?(?:휴장일|휴일|공휴일|쉬는 ?날){_P}(?: ?언제{_BE}?|{_ASK})?"),
    ("calendar", f"<holiday> (?:{{m}} ?)?(?:휴장일|휴장|쉬는 ?날){_P} ?{_BE}?|<holiday>(?: ?언제{_BE}?)?"),
    ("convert", f"<amount>(?: <in>)?(?: ?(?:환전|환산|바꾸|계산)(?:하면|해|면|하나요)?)?{_ASK}?"),
    ("chart", "{n} ?(?:<period> )?(?:주가 ?)?차트|<period> {n} ?차트|(?:<period> )?차트"),
    ("compare", f"(?:<period> )?{{n}}(?: <period>)?(?:{_CHANGE_KO}|{_PRICE_KO})? ?비교(?:해|하면)?"),
    ("quote", f"(?:{{n}} )?<quantity>(?: ?가격| ?값)?{_P}(?: <in>)?{_ASK}?|{{n}} <in> <quantity>{_ASK}?"),
    ("history", f"{{n}} <period>{_PRICE_KO}?(?:{_CHANGE_KO}{_ASK}?|{_MOVED_KO})"),
    ("history", f"(?:<period> )?{{n}}(?:{_CHANGE_KO}{_ASK}?|{_MOVED_KO})|<period>(?:{_CHANGE_KO}|{_MOVED_KO})"),
    ("quote", f"(?:<in>|<period>|<date>)(?:{_PRICE_KO}?{_ASK})?|얼마{_BE}?"),
    ("quote", f"{_WHEN_KO}?{{n}}(?:{_PRICE_KO}{_ASK}?|{_ASK})|{{n}} {_WHEN_KO}(?:{_PRICE_KO}{_ASK}?|{_ASK})"),
    ("quote", f"{{n}}{_PRICE_KO} <in>{_ASK}?"),
    ("quote", f"{{n}} <in>{_PRICE_KO}?{_ASK}?|{_WHEN_KO}{{n}}"),
    ("quote", "{n} (?:<period>|<date>)|(?P<bare>{n})"),
)  # fmt: skip
PATTERNS: Final = {"en": _ENGLISH, "ko": _KOREAN}

LONGEST: Final = 120
"""Characters of a sentence. They bound the time that all patterns take."""
_COURTESY: Final = (
    r"^(?:(?:hey|hi|hello|okay|ok|so|well|please|혹시|근데|그런데|안녕하세요)\b[, ]*)+(?=\S)",
    r"^(?:(?:can|could|would|will) you )?(?:please )?(?:tell|show|give|get)(?: me| us)? (?=\S)",
    r",? (?:please|pls|plz|thanks|thank you)$",
    r"(?:좀)? ?(?:줘요?|주세요|줄래요?|주실래요?|주시겠어요|주십시오|봐 ?줘요?|봐요?)$",
    r"(?:좀)? ?(?:알려|보여|말해|가르쳐|찾아|확인해|조회해|부탁해요?|부탁드려요|부탁드립니다|궁금해요?)$",
    r" ?좀$",
)
_NOW: Final = (
    r"\b(?:right now|at the moment|today(?:'s)?|now|currently)\b"
    r"|(?<![가-힣])(?:지금|현재(?!가)|오늘)(?:은|의|도)?(?![가-힣])"
)
_AND: Final = r"^(?:(?:and|what about|how about|also|then|그럼|그러면|그리고) )+"

_PARTICLE: Final = (
    "(?:에는|에도|에서는|에서|엔|에|은요?|는요?|이면|면|이|가|을|를|의|도|만|이랑|랑|인데|이라는데)?(?![가-힣])"
)
_START: Final = "(?<![가-힣])"
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH: Final = (
    r"jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?"
)
_DATE: Final = (
    r"(?:\bon )?(?:the )?(?<![\w.-])(?:(?P<y1>\d{4})[-./](?P<m1>\d{1,2})[-./](?P<d1>\d{1,2})(?![\d-])"
    r"|(?:(?P<y2>\d{4})년 ?)?(?P<m2>\d{1,2})월 ?(?P<d2>\d{1,2})일(?:날|자)?"
    rf"|(?P<m3>{_MONTH})\.? (?P<d3>\d{{1,2}})(?:st|nd|rd|th)?(?:,? (?P<y3>\d{{4}}))?\b"
    rf"|(?P<d4>\d{{1,2}})(?:st|nd|rd|th)? (?:of )?(?P<m4>{_MONTH})(?:,? (?P<y4>\d{{4}}))?\b){_PARTICLE}"
)


def _read_date(found: re.Match[str]) -> str:
    given = {name[0]: text for name, text in found.groupdict().items() if text}
    month = given["m"][:3].casefold()
    number = int(month) if month.isdigit() else _MONTHS.index(month) + 1
    year = f"{given['y']}-" if "y" in given else ""
    return f"{year}{number:02}-{int(given['d']):02}"


_PERIODS: Final = (
    ("yesterday", "yesterday(?:'s)?", "어제|전일"),
    ("this_week", "this week", "이번 ?주|금주"),
    ("last_week", "(?<!the )last week", "(?:지난|저번) ?주"),
    ("this_month", "this month", "이번 ?달|이달"),
    ("last_month", "(?<!the )last month", "(?:지난|저번) ?달"),
    ("this_quarter", "this quarter", "이번 ?분기"),
    ("last_quarter", "(?<!the )last quarter", "지난 ?분기"),
    ("year_to_date", "this year|ytd|year to date", "올해|금년"),
    ("last_year", "(?<!the )last year", "작년|지난 ?해"),
    ("week", "past week|(?<=the )last week|(?:a|one|1)[ -]week|7 days", "(?:일|1) ?주일|1 ?주간"),
    ("month", "past month|(?<=the )last month|(?:a|one|1|last 1)[ -]month|30 days", "한 ?달|1 ?개월"),
    ("quarter", "past quarter|(?<=the )last quarter|(?:past |last )?(?:3|three)[ -]months?", "[3세석] ?(?:개월|달)"),
    ("half_year", "(?:past |last )?(?:6|six)[ -]months?", "6 ?개월|여섯 ?달"),
    ("year", "past year|(?<=the )last year|(?:a|one|1)[ -]year|12[ -]months|52[ -]weeks?", "[1일] ?년|12 ?개월|52주"),
)
_PERIOD: Final = (
    r"\b(?:(?:over|in|during|for|within|of) )?(?:the )?(?:"
    + "|".join(f"(?P<{name}_en>{english})" for name, english, _ in _PERIODS)
    + rf")\b(?:'s\b)?(?! ago)|{_START}(?:최근 ?)?(?:"
    + "|".join(f"(?P<{name}_ko>{korean})" for name, _, korean in _PERIODS)
    + f")(?: ?(?:동안|간|치))?(?! ?전){_PARTICLE}"
)
CSAT: Final = "CSAT"
_HOLIDAY: Final = (
    r"\b(?:on )?(?P<en>thanksgiving|christmas|new year's|good friday|memorial day|juneteenth|independence day|labor day"
    r"|seollal|chuseok|children's day|csat|college entrance exam)(?: day)?\b|(?P<ko>추석|설날|신정|성탄절|크리스마스"
    f"|추수감사절|광복절|개천절|한글날|어린이날|현충일|삼일절|제헌절|수능)(?:날|일)?(?: ?연휴)?{_PARTICLE}"
)
_HOLIDAY_NAMES: Final = {
    **dict.fromkeys(("수능", "csat", "college entrance exam"), CSAT),
    "크리스마스": "성탄절",
    "new year's": "New Year",
}


def _read_holiday(found: re.Match[str]) -> str:
    name = found[found.lastgroup or ""].casefold()
    return _HOLIDAY_NAMES.get(name, name)


_NUMBER: Final = r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?<![1-9]\.\d{3})"
"""Not 5.000, which is five or five thousand."""
_FEW: Final = {**{"a": 1, "one": 1, "ten": 10}, **{"한": 1, "두": 2, "세": 3, "네": 4, "다섯": 5, "열": 10}}
_QUANTITY: Final = (
    rf"(?<![\w.,+−-])(?:(?P<en>{_NUMBER}|a|one|ten) (?:(?:shares?|units?|coins?)\b(?: of\b)?|of (?:it|them)\b)"
    rf"|(?P<ko>{_NUMBER}[천백만]?|한|두|세|네|다섯|열) ?(?:주|개){_PARTICLE})"
)
_CURRENCY: Final = (
    rf"\b(?:(?:in|to|into|as) (?:the )?|how many )(?:(?P<en>{ENGLISH_CURRENCY})\b|(?P<sign>[$€£¥₩]))"
    rf"|{_START}(?P<ko>{KOREAN_CURRENCY}) ?(?:으로|로)(?:는|은|도|요)?(?![가-힣])"
    rf"|몇 ?(?P<many>{KOREAN_CURRENCY})(?:이야|야|예요|이에요|에요|인가요?|인지|임|이지|지|이죠|죠)?(?![가-힣])"
)


def _replace_amount(tokens: dict[str, str]) -> bool:
    """Put `<amount>` in the place of an amount of money; False if there are several, or one that is not sure."""
    text = tokens["text"]
    found = [each for each in find_figures(text) if each.currency]
    if not found:
        return True
    figure = found[0]
    before = text[: figure.start]
    digits = re.findall(r"\d[\d.,]*", text[figure.start : figure.end])
    if len(found) > 1 or figure.kind != "amount" or figure.high is not None or figure.value < 0:
        return False
    if not all(re.fullmatch(_NUMBER, each) for each in digits) or re.search(r"[\d.,+−-]\s?$", before):
        return False
    value = Decimal(_write_decimal(figure.value))
    if figure.decimals:
        value = value.quantize(Decimal(1).scaleb(-figure.decimals))
    after = re.sub(f"^{_PARTICLE}", "", text[figure.end :])
    tokens |= {"amount": f"{value:f}", "base": figure.currency or "", "text": f"{before} <amount> {after}"}
    return True


def _read_quantity(found: re.Match[str]) -> str:
    written = (found["en"] or found["ko"]).casefold()
    return str(_FEW.get(written) or _write_decimal(read_value(written.replace(",", ""))))


def _write_decimal(value: Fraction) -> str:
    return f"{Decimal(value.numerator) / Decimal(value.denominator):f}"


_TOKENS: Final[tuple[tuple[str, str, Callable[[re.Match[str]], str]], ...]] = (
    ("date", _DATE, _read_date),
    ("period", _PERIOD, lambda found: (found.lastgroup or "")[:-3]),
    ("quantity", _QUANTITY, _read_quantity),
    ("holiday", _HOLIDAY, _read_holiday),
    ("tomorrow", rf"\btomorrow\b|{_START}내일{_PARTICLE}", lambda found: "tomorrow"),
    ("in", _CURRENCY, lambda found: find_currency(found[found.lastgroup or ""]) or ""),
)
