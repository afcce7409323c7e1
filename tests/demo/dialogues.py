"""Conversations: what each line does depends on the lines before it. `text => what it did`, a blank line between."""

DIALOGUES = """
What is AAPL trading at? => quote AAPL
and in won? => quote AAPL in KRW
what about MSFT? => quote MSFT in KRW
and last month? => history MSFT last_month
and Tesla? => history TSLA last_month
thanks => say thanks
is it open? => hours NASDAQ

삼성전자 현재 주가 알려줘 => quote 005930
그리고 카카오는? => quote 035720
그럼 달러로는? => quote 035720 in USD
지난달은? => history 035720 last_month
네이버는 어때? => history 035420 last_month
25만원 넘으면 알려줘 => alert 035420 above 250000
내 알림 => list alerts 035420
알림 모두 삭제 => remove alerts 035420
내 알림 보여줘 => list alerts

How is Samsung Electronics trading? => quote 005930
What did AAPL do this month? => history AAPL this_month
What has TSLA done this year? => history TSLA year_to_date
could you show me last week instead => history TSLA last_week

삼성전자 지금 얼마야? => quote 005930
애플은 이번 달에 뭐 했어? => history AAPL this_month
지난주는? => history AAPL last_week

네카오 얼마야 => which 035420,035720
카카오 => quote 035720

삼성 이번 달 수익률 => which 005930,207940,006400
두 번째 => history 207940 this_month

samsung price => which 005930,207940,006400
electronics => quote 005930

LG price => which 373220,051910,066570
the third one => quote 066570

price of teslla => near TSLA
yes => quote TSLA

price of teslla => near TSLA
no => say ok

compare samsung and apple => which 005930,207940,006400
SDI => compare 006400,AAPL month

compare apple and tesla => compare AAPL,TSLA month
what about nvidia? => compare AAPL,NVDA,TSLA month
this year => compare AAPL,NVDA,TSLA year_to_date

100 USD to KRW => convert 100 USD KRW
and in yen? => convert 100 USD JPY
and 500? => convert 500 USD JPY

100달러는 얼마야? => convert 100 USD KRW
엔화로는? => convert 100 USD JPY
그럼 200달러는? => convert 200 USD KRW

내 포트폴리오 보여줘 => portfolio KRW
달러로는? => portfolio USD

미국장 열렸어? => hours NYSE
오늘 하이닉스 => quote 000660

is the US market open? => hours NYSE
Korea? => hours KRX
Tesla? => quote TSLA

미국장 열렸어? => hours NYSE
한국은? => hours KRX
휴장일은 언제야? => calendar KRX

테슬라 사도 돼? => say advice
그럼 시세라도 알려줘 => say which_one

삼성전자 얼마야? => quote 005930
AAPL => quote AAPL

What is Apple at? => quote AAPL
what is its change this week? => history AAPL this_week
why? => nothing; say left

How much is Tesla? And Apple? => quote TSLA; quote AAPL
in won? => quote TSLA in KRW; quote AAPL in KRW
"""


def dialogues() -> list[list[tuple[str, str]]]:
    blocks = DIALOGUES.strip().split("\n\n")
    return [[(said, did) for said, did in (line.rsplit(" => ", 1) for line in each.splitlines())] for each in blocks]
