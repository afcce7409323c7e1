"""Word lists: which words mean nothing by themselves, and which are part of a question of one kind.

A word that is in neither list carries a meaning of its own. It is looked up as a name, and when nothing goes by that
name the question is refused: dropping one word ("not", "minus", "tomorrow") turns an answer into a wrong answer.
"""

import re
from collections.abc import Mapping
from functools import cache

from finclaw.demo.assistant.intent import Intent


def _set(*words: str) -> frozenset[str]:
    return frozenset(" ".join(words).split())


# ── English ─────────────────────────────────────────────────────────────────────────────────────────────────

_FILLER = _set("""
    a about actually again also an and are at can check could current currently do does exactly find for get give hello
    hey hi how how's hows in info information instead is it it's its just know latest let live look looking me much now
    of ok okay on one or please pls plz quick quickly really right say see show so tell thank thanks that the them then
    there these they this those to today too want well what what's whats which would you
""")
_PRICE = """
    cost costs doing going level per price priced prices quote quoted quotes rate rates share shares stand stands stock
    stocks ticker trade traded trades trading value valued volume worth
"""
_CHANGE = """
    been by change changed changes changing chart charts did do done down drop dropped dropping fall fallen falling fell
    fare fared gain gained gaining gains go gone had has have high higher highest highs history lose losing loss lost
    low lower lowest lows move moved moves moving open opened opening over percentage perform performance performed
    performing range return returned returns rise risen rises rising rose trend trending trends up was went were
"""
_COMPARE = "against better between both compare compared comparing comparison more most outperform side than with"
_HOURS = """
    already bell business close closed closes closing does end ends exchange hour hours long market markets next open
    opened opening opens session start starts still stock till time times trade trading until when yet
"""
_CALENDAR = "any calendar closure closures coming day days holiday holidays list off upcoming"
_CONVERT = "change conversion convert converted converting equal equals exchange exchanged from into make makes many"
_PORTFOLIO = "account all assets holding holdings i investment investments my portfolio position positions sample total"
_ALERT = """
    above alert alerts an at become becomes below cross crosses dip dips down drop drops exceed exceeds fall falls goes
    go hit hits if less lower message more my notify once over ping price reach reaches remind rise rises climb climbs
    set add create share stock text than trades under up warn when with higher
"""
_ALERT_LIST = "active alert alerts all any do have i list my our set"
_ALERT_REMOVE = "alert alerts all cancel clear delete drop every everything from my off price remove stop turn"

_LEADS = _set("a also an and hello hey hi now of ok okay or please pls plz so the then to today too well in on at")
"""What may stand beside a name when nothing in the text asks for anything."""
_KEPT_IN_CAPITALS = _set("IT SO ON ALL NOW LOW HAS KEY A")
"""Words in small letters, tickers in capitals."""

# ── Korean ──────────────────────────────────────────────────────────────────────────────────────────────────

PARTICLE = (
    "(?:은|는|이|가|을|를|의|도|만|에|로|으로|요|야|이야|예요|에요|이에요|인가요|인가|인지|인데|랑|이랑|하고|와|과|에서"
    "|라도|이라도|입니다|입니까|좀|는요|은요|죠|이죠|지|이지|니|이니|냐|이냐|임|이면|면|여)"
)
_VERB_END = "(?:어|어요|아|아요|니|나|나요|냐|지|죠|습니까|는지|을까요?|음|거야|건가요?|는데|던가요?)"
_GIVE = "(?:줘|줘요|주세요|줄래|줄래요|주라|주실래요|주시겠어요|주십시오|줄|봐|봐요|봐줘|드려요)"
_FILLER_KO = (
    f"(?:지금|현재|오늘|방금|실시간|그|그거|그건|그게|이거|이건|그것|이것|거기|여기|걔|얘|종목){PARTICLE}?|{PARTICLE}"
    "|그럼|그러면|그렇다면|그런데|근데|그리고|또|또한|혹시|아|음|흠|오|야|자|참|안녕|안녕하세요|네|아니|한번|고마워|고마워요|감사해요|감사합니다|좀만|바로|빨리"
    f"|(?:알려|보여|가르쳐|말해|찾아|확인해|조회해|부탁해|해){_GIVE}?|(?:확인|조회|부탁)(?:좀|해요|합니다|드려요|드립니다)?"
    f"|{_GIVE}|알고|보고|궁금|궁금(?:해|해요|합니다|한데|하다)|싶(?:어|어요|은데|습니다)|정보{PARTICLE}?|주(?:고|면)|알려주고"
)
_PRICE_KO = (
    f"(?:주가|주식|시세|가격|현재가|종가|값|거래량|얼마|얼만|얼마쯤|몇|몇포인트|포인트){PARTICLE}?|얼마임|당|한"
    "|어때|어때요|어떄|어떤가요?|어떰|어떻게|돼|돼요|되나요?|됨|해|해요|하나요?|하니|하냐|뭐야?|뭐예요"
)
_CHANGE_KO = (
    "(?:변동|변동률|등락|등락률|수익률|상승|상승률|하락|하락률|추이|변화|차트|흐름|동향|움직임|고점|저점|최고가|최저가|고가|저가|최고"
    f"|최저|시가|시초가|신고가|신저가|얼마나|많이|좀|퍼센트|성적){PARTICLE}?|(?:올랐|내렸|떨어졌|움직였|변했|바뀌었|했|됐|어땠"
    f"|하락했|상승했|변동했){_VERB_END}?|오른|내린|떨어진|올라|올라요|뭐"
)
_PAST_KO = f"(?:얼마|가격|주가|시세|종가)?(?:였|이었){_VERB_END}|했{_VERB_END}"
"""What asks for a time that is over: only with that time is it understood."""
_COMPARE_KO = (
    f"비교{PARTICLE}?|비교해(?:{_GIVE})?|비교하면|중|중에|중에서|더|대결"
    f"|(?:둘|뭐|누|어느|어느게|어느쪽|어떤게|어디){PARTICLE}?"
)
_STATE_KO = f"(?:했|됐|있|하|되)?{_VERB_END}|있는지|하는지|되는지|해|해요|돼|돼요|한다|합니까|됩니까|된다|하지|는"
_HOURS_KO = (
    "(?:장|개장|폐장|마감|휴장|시간|거래시간|거래|영업|증시|시장|주식시장|주식|언제|시|몇시|시작|끝|정규장|본장)"
    f"{PARTICLE}?|몇|(?:열렸|열려|열리|열었|열어|열|여|닫혔|닫히|닫혀|닫았|닫아|닫|쉬|쉬어|끝났|끝나|시작|마감|개장|폐장|휴장|영업)"
    f"(?:{_STATE_KO})?|있(?:{_VERB_END})?|어떻게|돼|돼요|되나요?|아직|벌써|이제|해|해요|하나요?|시에|요"
)
_CALENDAR_KO = f"(?:휴장일|휴일|공휴일|쉬는|날|쉬는날|일정|캘린더|달력|다음|연휴){PARTICLE}?"
_CONVERT_KO = "환전|환산|계산|(?:환전|환산|계산)?(?:하면|해|해줘|해주세요)|바꾸면|바꿔|바꿔줘|바꿔주세요|되나요?"
_PORTFOLIO_KO = f"(?:내|제|나의|내가|가진|포트폴리오|포폴|주식|종목|자산|보유|계좌|잔고|총|현황|평가액|목록){PARTICLE}?"
_WHEN_KO = (
    "(?:되|넘|넘어가|넘어서|오르|내리|올라가|내려가|떨어지|도달하|도달|밑돌|웃돌|돌파하|하락하|상승하|가|찍|닿|내려오|올라오)(?:으면|면)"
    "|(?:이상|이하|미만|초과)(?:면|이면|로|으로|이|가|하면|되면|이되면)?|위로|아래로|밑으로|위|아래|밑|될|넘을|오를|내릴|떨어질|때|때에"
)
_ALERT_KO = (
    f"(?:알림|알람|가격|주가|시세){PARTICLE}?|(?:설정|추가|등록|연락)(?:해|해줘|해주세요|좀|하고)?|걸어{_GIVE}?"
    f"|맞춰{_GIVE}?|까지|까지는|{_WHEN_KO}"
)
_ALERT_LIST_KO = (
    f"(?:내|제|알림|알람|목록|리스트|현황|상태|설정|설정된|설정한){PARTICLE}?|있(?:{_VERB_END})?|뭐|뭐가|뭐야"
)
_ALERT_REMOVE_KO = (
    f"(?:내|제|알림|알람|설정|가격){PARTICLE}?|전부|모두|모든|다|(?:삭제|취소|해제|제거)(?:해|해줘|해주세요|좀)?"
    f"|(?:지워|꺼|없애){_GIVE}?"
)
_CLOCK_KO = f"(?:몇|몇시|시|시각|시간|날짜|며칠|무슨|무슨요일|요일|몇월|몇일){PARTICLE}?|오늘날짜"

_LISTS: Mapping[Intent | None, tuple[str, str]] = {
    None: ("", "는|은|어때|어때요|어떄|는요|은요"),
    "about": (_PRICE, _PRICE_KO),
    "price": (_PRICE, _PRICE_KO),
    "change": (_PRICE + _CHANGE, f"{_PRICE_KO}|{_CHANGE_KO}"),
    "compare": (_PRICE + _CHANGE + _COMPARE, f"{_PRICE_KO}|{_CHANGE_KO}|{_COMPARE_KO}"),
    "hours": (_HOURS, _HOURS_KO),
    "calendar": (_HOURS + _CALENDAR, f"{_HOURS_KO}|{_CALENDAR_KO}"),
    "convert": (_PRICE + _CONVERT, f"{_PRICE_KO}|{_CONVERT_KO}"),
    "portfolio": (_PRICE + _PORTFOLIO, f"{_PRICE_KO}|{_PORTFOLIO_KO}"),
    "alert_add": (_ALERT, _ALERT_KO),
    "alert_list": (_ALERT_LIST, _ALERT_LIST_KO),
    "alert_remove": (_ALERT_REMOVE, _ALERT_REMOVE_KO),
    "clock": ("clock date day time today's", _CLOCK_KO),
}
_ENGLISH = {intent: _FILLER | _set(english) for intent, (english, _) in _LISTS.items()}
_PAST_EN = _set("was were did close closed closing")
_PAST = re.compile(_PAST_KO)
_PHRASES = re.compile(
    r"\bi(?:'d| would)? (?:want|like|love) to (?:know|see|get|check)\b|\b(?:can|could|may) i (?:get|see|have|know)\b"
    r"|\b(?:what|how) about\b|\blook(?:ing)? up\b|\bso far\b|\b(?:previous|last|prior|latest) (?:close|price)\b"
    r"|\bclosing price\b|\b(?:i have|i own|i've got)(?= \d)|\bcan you tell me\b|\blet me know\b|직전 종가|전일 종가"
    r"|^\W*(?:(?:no|nope|yes|yeah|yep|네|예|아니|아니요)\s*,\s*)?(?:i mean[,\s]+)?",
    re.IGNORECASE,
)
"""Several words that mean nothing more together than a question does, though each alone might."""


def without_phrases(text: str) -> str:
    return _PHRASES.sub(" ", text)


def asks_for_nothing_else(word: str) -> bool:
    """False for a word such as `tell` or `what`, which wants something of which the kind was not recognised."""
    return word.casefold() in _LEADS or word.casefold() not in _FILLER


def is_vocabulary(word: str, intent: Intent | None, *, past: bool = False) -> bool:
    """Whether a word is part of asking a question of this kind; `past`: of a time that is over."""
    if word in _KEPT_IN_CAPITALS:
        return False
    if word.casefold() in _ENGLISH.get(intent, _FILLER) or (past and word.casefold() in _PAST_EN):
        return True
    return bool(_korean_words(intent).fullmatch(word)) or (past and bool(_PAST.fullmatch(word)))


@cache
def _korean_words(intent: Intent | None) -> re.Pattern[str]:
    """Compiled when first asked for: all of them take 20 ms of `cold_cpu`, and a question needs one or two."""
    _, korean = _LISTS.get(intent, _LISTS[None])
    return re.compile(f"{_FILLER_KO}|{korean}")
