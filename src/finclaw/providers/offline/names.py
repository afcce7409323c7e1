"""The names in a clause: what is left of it without the words that only ask.

There is no dictionary of companies here. The tools know which names there are; what they do not know is asked back.
"""

import re
from collections.abc import Iterator
from itertools import groupby

MOST_NAMES = 6
"""In one question. More are not looked up: whoever pastes a page wants something else."""
_LONGEST_NAME = 40
_MOST_BARE_WORDS = 4

_WORD = re.compile(r"[^\s()\[\]{}<>\"“”‘,、，]+|[,、，]")


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_EMPTY_EN = _set("""
    a about above account after again alert alerts all also am an any anything are as ask at back be been before
    below better between bought buy buying by calendar can change changed changes chart charts check clear close closed
    closes closing closure closures compare compared comparing comparison convert converted converting cost costs could
    current currently day days delete did difference do does doing dollars done down drop dropped drops during each
    exchange fall fallen falls far fell find for from gain gained gains get gets give go goes going gone good got had
    has have he hello help her here hey hi high highs history hit hits hold holiday holidays hours how i if in increase
    info information instead into is it its just know last latest let like list live look lookup lost low lows make many
    market markets me mean month more most move moved moving much my near need next notify now of off ok okay on once
    one only open opened opening opens or out over past per percent perform performance performed performing ping
    please plz pls portfolio previous price priced prices quick quote quotes reach reaches recent recently remind
    remove return returns right rise risen rises rose same say see sell set share shares she should show side since so
    stand stands start still stock stocks stop tell text than thank thanks that the their them then there these they
    thing think this those time times to today tomorrow too trade traded trades trading trend trends under until up us
    value valued versus vs volume want was watch we week were what whats when where whether which who why will with
    won worth would year yesterday yet you your
""")
_KEPT_IN_CAPITALS = _set("US U.S. USA ALL NOW ON IT SO LOW HAS KEY")
"""A pronoun in small letters, a country or ticker in capitals."""

_PARTICLE = (
    "(?:은|는|이|가|을|를|의|도|만|에|로|으로|요|야|이야|예요|에요|이에요|인가요|인지|랑|이랑|하고|와|과|에서|까지|부터|라도"
    "|입니다|좀|어치)"
)
_EMPTY_KO = re.compile(
    # Nouns with or without a particle; only whole words, for 오늘이엔엠 and 인지컨트롤스 are companies.
    "(?:시|몇시|현재|지금|오늘|방금|요즘|최근|실시간|주가|주식|시세|가격|현재가|종가|값|좀|그럼|그러면|혹시|나|내|저|제|몇|이|그|그거|그건|이거|이건"
    "|그것|이것|거기|여기|걔|얘|종목|증시|시장|상황|장|주식시장|다음|언제|시간|개장|폐장|마감|휴장|휴장일|휴일|공휴일|일정|캘린더|달력|날|쉬는"
    "|변동|등락|등락률|수익률|상승|하락|추이|변화|차트|고점|저점|최고가|최저가|고가|저가|흐름|동향|거래량|비교|중|중에|중에서|둘|누가|어느|어느게|어느쪽"
    "|어떤|더|많이|얼마나|이상|이하|위|아래|보다|알림|알람|목록|리스트|설정|전부|모두|모든|다|포트폴리오|보유|환전|환산|동안|간|전|대비|퍼센트|쪽|때"
    "|그리고|또|또한|및|정도|기준|관련|정보|데이터|당|한|번|한번|아|음|흠|오|야|자|님|아직|벌써|이제|거래시간|거래|영업|요새|당시|몫|가장|제일|주"
    "|원화|달러로|원으로|사이|이면|되면|넘으면|오르면|내리면|내려가면|올라가면|떨어지면|이상이면|이하면|이하로|이상으로|도달하면|가면|밑으로|위로|아래로)"
    f"{_PARTICLE}?|{_PARTICLE}"
    # Verbs of asking and of moving, in whatever form and politeness.
    "|(?:얼마|얼만|알려|알고|보여|궁금|확인|가르쳐|말해|찾아|조회|부탁|어때|어떄|어떻|어떤가|무엇|뭐|뭔|해줘|해주|해봐|줘|주세요|싶|올랐|올라|오른"
    "|오르|내렸|내려|내린|내리|떨어|움직|열렸|열려|열리|열었|여는|열|닫혔|닫히|닫았|닫|쉬|시작|끝나|끝|비교|설정|추가|등록|삭제|취소|지워|해제|없애|제거"
    "|있어|있나|있니|있는|있|되는|됐|되나|되면|하면|하는|할까|했|해요|합니|바꾸|바꿔|환전|환산|계산|넘으|도달|연락|걸어|맞춰|걸|볼|봐).*"
    "|돼|돼요|되나요|됐어|인가요|인지|인데|임|요|죠|지|니|냐|까|게|건|거|것"
)

_ATTACHED = re.compile("(?<=.)(?:주가|시세|가격|현재가|종가|얼마|얼만|환율은|차트|등락|수익률).*$")
_JOINS = _set("and or vs vs. versus with against + / 그리고 및 또는 랑 하고 와 과 vs")
_JOINS_AT_THE_END = re.compile("(?<=.)(?:랑|하고|와|과)$")
_EXCHANGE_RATE = re.compile(r"\bexchange rates?\b", re.IGNORECASE)
"""One word, for each of its two would be empty."""
_JAMO = re.compile("[ㄱ-ㆎ\u1100-\u11ff]+")
"""ㅋㅋ, ㄱㄱ: laughter and haste, and never a name."""
_INSIDE = _set("of &")
"""Between two words of a name they belong to it: Bank of America, Johnson & Johnson."""

_TAILS = re.compile(r"(?:^|(?<=[\s가-힣]))(?:어때|어떄|어떤가|어떨|는요|은요)(?:요|용|여)?\W*$")
_POLITE_WORDS = frozenset(("please", "today", "now", "오늘", "지금", "요즘", "현재", "좀"))
_LEADS = re.compile(
    r"^\W*(?:(?:and|also|or|then|ok(?:ay)?|so|now|hey|hi|hello|what about|how about|(?:i )?mean|no|yes"
    r"|그리고|그럼|그러면|그렇다면|그런데|근데|또|혹시|참|안녕(?:하세요)?|아니|네)(?=[\s,]|$)[\s,]*)+",
    re.IGNORECASE,
)


def names_in(text: str) -> tuple[str, ...]:
    """Runs of neighbouring words that are neither empty nor joints: `SK hynix and Apple` are two."""
    pieces = list(_pieces(list(_words(_EXCHANGE_RATE.sub("exchange-rate", text)))))
    runs = (" ".join(run) for is_name, run in groupby(pieces, key=bool) if is_name)
    return tuple(dict.fromkeys(name for name in runs if _can_be_name(name)))


def bare_names_in(text: str) -> tuple[str, ...]:
    """A few names and nothing else, as people write to a bot that tells prices: `AAPL?`, `삼성전자 애플`."""
    rest = _TAILS.sub("", _LEADS.sub("", text))
    words = [word for word in _words(rest) if word.casefold() not in _POLITE_WORDS and not _JAMO.fullmatch(word)]
    names = [word for word in words if word not in (",", "&", "of")]
    if not 0 < len(names) <= _MOST_BARE_WORDS or any(is_empty(word) for word in names):
        return ()
    return names_in(rest)


def is_empty(word: str) -> bool:
    if word in _KEPT_IN_CAPITALS:
        return False
    return word.casefold() in _EMPTY_EN or bool(_EMPTY_KO.fullmatch(word))


def _words(text: str) -> Iterator[str]:
    for match in _WORD.finditer(text):
        word = match.group().strip(".:;!?'’*_`~…？！。|=#") or match.group()
        word = re.sub("['’]s$", "", word)
        if any(map(str.isalnum, word)) or word in ("&", "+", "/", ",", "、", "，"):
            yield "," if word in "、，" else word


def _pieces(words: list[str]) -> Iterator[str]:
    """The clause word by word, with "" wherever one name ends and another may begin."""
    for place, word in enumerate(words):
        if word.casefold() in _INSIDE and _between_names(words, place):
            yield word
        elif word == "," or word.casefold() in _JOINS or word == "&" or is_empty(word) or _JAMO.fullmatch(word):
            yield ""
        elif attached := _ATTACHED.search(word):
            yield word[: attached.start()]
            yield ""
        else:
            yield word
            if _JOINS_AT_THE_END.search(word):
                yield ""


def _between_names(words: list[str], place: int) -> bool:
    around = words[place - 1 : place] + words[place + 1 : place + 2]
    return len(around) == 2 and place > 0 and not any(is_empty(word) or word.casefold() in _JOINS for word in around)


def _can_be_name(name: str) -> bool:
    """Short, and more than a bare amount: only the six places of a KRX code may be all digits."""
    if len(name) > _LONGEST_NAME:
        return False
    return any(map(str.isalpha, name)) or bool(re.fullmatch("[0-9]{6}", name))
