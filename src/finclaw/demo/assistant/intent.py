"""Intents of questions, as one table: the first row whose pattern is in the text wins.

The order is part of the meaning: "tell me when Apple hits 250" must be seen as an alert before it is seen as a price.
"""

import re
from typing import Literal

from msgspec import Struct

_Alerts = Literal["alert_remove", "alert_add", "alert_list"]
_Markets = Literal["portfolio", "calendar", "hours", "compare", "convert", "change", "price", "about", "clock", "calc"]
_Sayings = Literal["trade", "advice", "news", "real", "help", "thanks", "bye", "greeting"]
Intent = _Alerts | _Markets | _Sayings

ABOUT_INSTRUMENTS: frozenset[Intent] = frozenset(("alert_add", "compare", "change", "price", "about"))
"""These are about something with a name; without one, the one spoken of before is meant."""

POLITE: frozenset[Intent] = frozenset(("greeting", "thanks", "bye"))
"""Answered only when nothing else was said."""


class IntentPattern(Struct, frozen=True):
    intent: Intent
    english: str
    korean: str


_KOREAN_WHEN = (
    "(?:되면|넘으면|오르면|내리면|떨어지면|내려가면|올라가면|이상이면|이하면|이하로|이상으로|도달하면|밑돌면|가면)"
)

ROWS = (
    IntentPattern(
        "alert_remove",
        r"\b(?:remove|delete|cancel|clear|drop|turn off|stop)\b.*\balerts?\b",
        "(?:알림|알람).*(?:삭제|취소|지워|해제|꺼|없애|제거)",
    ),
    IntentPattern(
        "alert_list",
        r"\b(?:my|list|show|which|what|any|all|active)\b(?!.*\bwhen\b).*\balerts\b|^\W*alerts?\W*$",
        r"(?:알림|알람)\s*(?:목록|리스트|현황|보여|뭐|있어|있나|있니|확인|조회|상태)|^\W*(?:내|제)?\s*(?:알림|알람)\W*$",
    ),
    IntentPattern(
        "alert_add",
        r"\b(?:alerts?|notify|ping|warn|remind)\b|\b(?:tell|message|text|let) me (?:know )?(?:when|if|once)\b",
        f"{_KOREAN_WHEN}.*(?:알려|알림|알람|말해|연락)|알림|알람",
    ),
    IntentPattern(
        "trade",
        r"^\W*(?:please\s+|can you\s+|could you\s+)?(?:buy|sell|short)\b"
        r"|\b(?:place|make) (?:an? )?order\b|\btransfer\b",
        "(?:사|팔아)\\s?(?:줘|주세요|줄래)|매수\\s?(?:해|주문)|매도\\s?(?:해|주문)|주문\\s?(?:해|넣)|송금|이체",
    ),
    IntentPattern(
        "advice",
        r"\bshould (?:i|we)\b|\b(?:good|right|best) (?:time|investment|buy|stocks?|pick)\b|\bworth (?:buying|it)\b"
        r"|\brecommend|\badvice\b|\badvise\b|\bpredict|\bforecast|\bprice target\b|\b(?:buy or|what to) (?:buy|sell)\b"
        r"|\bwill\b.*\b(?:rise|fall|drop|crash|reach|moon|open higher|open lower|be|hit|get to|go|become)\b"
        r"|\bgoing to (?:go|be|hit|reach|rise|fall|drop|crash)\b|\bhow (?:high|low) (?:can|could|will)\b"
        r"|\bhot (?:stocks?|tips?)\b|\bget rich\b|\bmake me money\b|\b(?:under|over)valued\b",
        "사도\\s?(?:돼|될|되|괜찮)|살까|팔까|사야|팔아야|추천|전망|예측|오를까|내릴까|떨어질까|오를\\s?것|내릴\\s?것|목표가|몰빵"
        "|갈까|갈\\s?(?:수|것|거)|언제\\s?(?:가\\W*$|가나|가요|갈|오르|오를|올라|떨어|내려|내릴)|될까|되려나|가려나|오르려나|[0-9만억]\\s?가나"
        "|(?:매수|매도|투자)\\s?(?:할까|해도|타이밍|의견|조언)|들어가도|존버|물타|손절|뭐\\s?살|떡상|대박",
    ),
    IntentPattern("news", r"\bnews\b(?!,? corp)|\bheadlines?\b", "뉴스|헤드라인|기사"),
    IntentPattern(
        "portfolio",
        r"\bportfolio\b|\bmy (?:holdings?|stocks|shares|positions?|investments?|assets|account)\b",
        "포트폴리오|포폴|(?:내|제|나의)\\s?(?:주식|종목|자산|보유|계좌|잔고)|보유\\s?(?:종목|주식)|잔고|내가 가진",
    ),
    IntentPattern(
        "real",
        r"\breal(?:-time| time)? (?:prices?|data|quotes?|market|money)\b|\b(?:is|are) (?:th(?:is|at|[eo]se)|it) real\b"
        r"|\bwhere\b.*\b(?:data|numbers|figures)\b|\bsources?\b|\bsimulated\b|\bfake\b|\bmade up\b",
        "진짜\\s?(?:시세|가격|데이터)|진짜(?:야|예요|인가|니|임|에요)|실제\\s?(?:시세|가격|데이터)|출처|모의|가짜|데모",
    ),
    IntentPattern(
        "calendar",
        r"\bholidays?\b|\bcalendar\b|\bdays? off\b|\bclosures?\b|\bclosed days?\b",
        "휴장일|휴일|공휴일|쉬는\\s?날|캘린더|달력|언제\\s?쉬|쉬나|쉬어|휴장",
    ),
    IntentPattern(
        "change", r"\bopening price\b|\bopen (?:of|for|price)\b|\bopened at\b|\bday'?s? (?:high|low)\b", "시가|시초가"
    ),
    IntentPattern(
        "clock",
        r"\bwhat time is it\b|\bwhat(?:'s|s| is) the (?:current )?(?:time|date)\b|\bwhat day is (?:it|today)\b"
        r"|\b(?:today's|current) date\b|\bwhat(?:'s|s| is) today(?:'s date)?\W*$|\bcurrent time\b|\bwhat date is\b",
        "몇\\s?시\\s?(?:야|예요|에요|이야|지|죠|임|인가|니|냐|쯤|입니까|인지|\\W*$)|며칠\\s?(?:이야|야|이에요|예요|이지|인가|이죠|임|\\W*$)|무슨\\s?요일|오늘\\s?날짜"
        "|몇\\s?월\\s?며칠|날짜\\s?(?:알려|가|는)",
    ),
    IntentPattern("price", r"\b(?:previous|last|prior|yesterday'?s?|closing) (?:close|price)\b", "종가"),
    IntentPattern(
        "hours",
        r"\b(?:trading|market|opening|closing|business) (?:hours?|times?)\b|\b(?:closing|opening) bell\b"
        r"|\b(?:open|close|opens|closes|opened|closed)\b",
        "개장|폐장|마감\\s?(?:시간|했|이|은|언제|돼|되)|거래\\s?시간|장\\s?(?:시간|시작|마감|끝|열|닫|언제)|열렸|닫혔|열려|열리|닫히|닫았"
        "|열었|언제\\s?(?:열|닫|마감|시작|끝)|몇\\s?시",
    ),
    IntentPattern(
        "compare",
        r"\bcompar|\bversus\b|\bvs\b|\bbetter than\b|\boutperform|\bside by side\b"
        r"|\bwhich (?:one )?(?:did|has|is|was|performed|rose|fell|moved)\b",
        "비교|중에?\\s?(?:뭐|무엇|어느|누가|어떤|어디)|대결|더\\s?(?:올랐|많이|떨어|내렸|좋)",
    ),
    IntentPattern("convert", r"\bconvert|\bin exchange for\b", "환전|환산"),
    IntentPattern(
        "change",
        r"\bhow (?:has|have|had|did|is|are|was|were)\b.*\b(?:do|done|doing|perform\w*|moved?|fared?|trend\w*)\b"
        r"|\bwhat (?:has|have|had|did)\b(?!.*\byou\b).*\b(?:do|done|been doing)\b"
        r"|\bperform\w*\b|\bchang(?:e|ed|es)\b|\bup or down\b|\bgain(?:ed|s)?\b|\blost\b|\b(?:rise|risen|rose|fell)\b"
        r"|\bfallen\b|\bdropped\b|\breturns?\b|\bhistory\b|\bcharts?\b|\bhighs?\b|\blows?\b|\btrend\b|\bmov(?:ed?|ing)\b",
        "변동|등락|수익률|상승|하락|어땠|올랐|내렸|떨어졌|떨어진|오른|내린|추이|변화|움직|차트|고점|저점|최고가|최저가|고가|저가|흐름|동향",
    ),
    IntentPattern(
        "price",
        r"^\W*what(?:'s|s| is| are)\b(?! the meaning| up\b| you\b)|^\W*how(?:'s| is)\b"
        r"|\b(?:how much|prices?|quotes?|trades?|trading|worth|costs?|stocks?|shares?|rates?|volume|valued?|at now)\b",
        "주가|시세|가격|현재가|종가|환율|얼마|얼만|거래량|몇\\s?(?:원|달러|불|엔|유로|포인트|이야|이에요|이지|인가|임)",
    ),
    IntentPattern(
        "help",
        r"\bhelp\b|\bwhat can (?:you|i)\b|\bcommands?\b|\bhow do(?:es)? (?:i|this|you)\b|\binstructions\b"
        r"|\bwho are you\b|\bwhat are you\b|\bwhat do you do\b|\bstart\b",
        "도움|도와|뭐\\s?(?:할\\s?수|해줄|하는|할\\s?줄)|무엇을\\s?할|사용법|기능|할\\s?줄\\s?아|명령|누구|정체|어떻게\\s?(?:써|쓰|사용)",
    ),
    IntentPattern(
        "thanks", r"\bthank|\bthx\b|\bcheers\b|\bappreciate\b|\bgreat job\b|\bnice one\b", "고마|감사|땡큐|ㄱㅅ|수고"
    ),
    IntentPattern(
        "bye",
        r"\b(?:good)?bye\b|\bsee (?:you|ya)\b|\bgood ?night\b",
        "안녕히\\s?(?:가|계)|잘\\s?(?:가|있|자)|^\\W*(?:바이)+\\W*$|다음에\\s?봐",
    ),
    IntentPattern(
        "greeting",
        r"^\W*(?:hi|hello|hey|yo|howdy|hiya|greetings|good (?:morning|afternoon|evening|day)|how are you|what'?s up)\b",
        # 하이 alone, for 하이닉스 begins with it.
        "안녕|^\\W*하이(?:요|염)?\\W*$|반가|반갑|ㅎㅇ|헬로|여보세요",
    ),
    IntentPattern(
        "about",
        r"\b(?:tell me about|look up|show me|check|find|info(?:rmation)? (?:on|about))\b",
        "알려|보여|궁금|조회|확인",
    ),
)

_COMPILED: tuple[tuple[Intent, re.Pattern[str]], ...] = tuple(
    (row.intent, re.compile(f"(?:{row.english})|(?:{row.korean})", re.IGNORECASE)) for row in ROWS
)


def intent_of(text: str) -> Intent | None:
    return next((intent for intent, pattern in _COMPILED if pattern.search(text)), None)


def without_politeness(text: str) -> str:
    """What is left of "hey, apple" without the greeting."""
    for intent, pattern in _COMPILED:
        if intent in POLITE:
            text = re.sub(rf"\S*(?:{pattern.pattern})\S*", " ", text, flags=re.IGNORECASE)
    return text
