"""What ordinary people ask, and what a right answer does: `text => right | also right`, a blank line between talks.

Written before the parser was read. A line passes when the assistant did one of the listed things or refused: said what
it did not understand, asked back, found nothing. `refuse` alone: nothing else will do. After `!` it must be answered.
"""

STRICT = """
what does one share of microsoft cost => quote MSFT

what would 3 nvidia shares cost me => quote NVDA & times 3

2.5 ethereum in dollars => convert 2.5 ETH USD | quote ETH-USD & times 2.5

half a bitcoin in won => refuse

I have 40 shares of coca cola, how much is that => quote KO & times 40

how much would I have if I bought apple in 2015 => refuse

price of apple without tax => refuse

apple price but not in dollars => refuse

apple price, not tesla => refuse

how much is apple minus tesla => refuse

is apple above 200? => refuse

is tesla cheaper than apple => refuse

did apple close higher than yesterday? => history AAPL yesterday | quote AAPL

apple high today => history AAPL day & high

tesla low of the day => history TSLA day & low

what was the open of nvidia => history NVDA day & open

how much was bitcoin on january 1st => history BTC-USD 01-01

bitcoin on christmas 2025 => refuse

apple last friday => refuse

apple three days ago => refuse

price of tesla 2 weeks ago => refuse

how was apple in march => refuse

how did apple do in the first half of the year => refuse

AAPL q3 2025 => refuse

apple between 2026-01-05 and 2026-02-05 => refuse

tesla this week => history TSLA this_week

tesla last week => history TSLA last_week

apple last quarter => history AAPL last_quarter

apple in the past quarter => history AAPL quarter

nvidia last 10 days => refuse

who is the ceo of apple => refuse

apple dividend => refuse

apple p/e ratio => refuse

market cap of nvidia => refuse

apple earnings date => refuse

why did tesla fall today => refuse

tesla news => refuse

top gainers today => refuse

dow jones => quote DJI | refuse

what's the nikkei at => refuse

gold in won => refuse

oil price => refuse

30 year mortgage rate => refuse

1 dollar in won tomorrow => refuse

what was 100 dollars in won a year ago => refuse

100 dollars and 50 euros in won => convert 100 USD KRW & convert 50 EUR KRW

100 canadian dollars in won => refuse

100 australian dollars to usd => refuse

50 swiss francs in won => refuse

5.000 euro in dollars => refuse

1 000 dollars in won => convert 1000 USD KRW

100 dollars in won and yen => convert 100 USD KRW & convert 100 USD JPY

2+2 => calc 4

15% of 80 dollars => refuse

what's 1000/8 => calc 125

what time is it in new york => refuse | clock

what's the date => clock

is the stock market open on christmas day => calendar KRX,NYSE | refuse

is london open now => refuse

how long until the us market closes => hours NYSE

alert me when apple is above 230 or below 200 => refuse

alert me if tesla drops 5% => refuse

alert me when btc is over 100k => alert BTC-USD above 100000

alert me tomorrow when apple hits 300 => refuse

don't alert me when apple hits 300 => refuse

alert me when apple does not reach 300 => refuse

alert me when samsung electronics goes above 80 => refuse

alert me when AAPL hits 240 euros => refuse

my alerts for tesla => refuse | list alerts TSLA | list alerts

How much is Tesla? => !quote TSLA
and 10 of them? => quote TSLA & times 10
in euros => quote TSLA in EUR
what about yesterday => history TSLA yesterday
and nokia? => refuse
and in won? => quote TSLA in KRW

apple price => quote AAPL
what's nestle in won? => refuse
and since january? => refuse

compare apple and tesla => compare AAPL,TSLA month
without apple => refuse
and since 2020 => refuse

apple alert => say alert_how
300 dollars => alert AAPL ? 300 | refuse

LG price => which
2 => quote 051910 | refuse
and hyundai => which

AAPL => quote AAPL
should I? => say advice | refuse

애플 한 주에 얼마야 => quote AAPL

엔비디아 세 주 사면 얼마 들어? => quote NVDA & times 3

테슬라 10주 원화로 얼마야 => quote TSLA in KRW & times 10

이더리움 2개는 몇 원이야 => quote ETH-USD in KRW & times 2 | convert 2 ETH KRW

삼성전자 50주랑 카카오 30주 합치면 얼마? => refuse

하이닉스 100주 있는데 얼마 벌었어? => refuse

삼성전자 9만원이면 살까 => say advice | refuse

삼성전자 5만원에 샀는데 지금 수익률 몇 프로야 => refuse

애플 빼고 테슬라만 알려줘 => refuse

애플 말고 테슬라 얼마야 => refuse | quote TSLA

애플이 테슬라보다 비싸? => refuse

삼성전자 그저께 종가 => refuse

삼성전자 11월 2일 종가 얼마였어 => history 005930 11-02

2026년 10월 1일 애플 종가 => history AAPL 2026-10-01

네이버 작년 12월에 얼마였어? => refuse

카카오 상반기 수익률 => refuse

카카오 3분기 실적 => refuse

현대차 배당금 얼마야 => refuse

삼성전자 시가총액 => refuse

삼성전자 시가 => history 005930 day & open

하이닉스 오늘 고가 => history 000660 day & high

애플 이번 주엔 어땠어 => history AAPL this_week

비트코인 올해엔 얼마나 올랐어 => history BTC-USD year_to_date

지난달엔 테슬라 어땠어? => history TSLA last_month

테슬라 최근 한 달 수익률 => history TSLA month

애플 엔화로 얼마 => quote AAPL in JPY

만 엔은 원화로 얼마야 => convert 10000 JPY KRW

10,5유로 원화로 => refuse

마이너스 100달러 원화로 => refuse

-50만원 달러로 => refuse

호주달러 환율 => refuse

위안화 환율 => quote USD/CNY | refuse

엔화 환율 => quote USD/JPY

파운드 원화로 => convert 1 GBP KRW

내일 환율 얼마 될까 => say advice | refuse

비트코인 언제 1억 가? => say advice | refuse

삼성전자 십만전자 가능해? => refuse | say advice

코스닥 지수 얼마야 => refuse

코스피 => !quote KOSPI

금값 얼마야 => refuse

3 곱하기 7은? => calc 21 | refuse

오늘 며칠이야 => clock

오늘 무슨 요일이야? => clock

설날에 장 열려? => calendar KRX | refuse

내일 한국장 열려? => hours KRX | calendar KRX | refuse

일요일에 장 열려? => refuse

크리스마스에 미국장 쉬어? => calendar NYSE | refuse

삼성전자 8만원 넘거나 7만원 밑으로 떨어지면 알려줘 => refuse

애플 300 되면 알려줘 => alert AAPL ? 300 | refuse

테슬라 40만원 넘으면 알려줘 => refuse | WrongCurrency

삼성전자 80달러 넘으면 알려줘 => refuse | WrongCurrency

카카오 안 오르면 알려줘 => refuse

알림 취소 => refuse | list alerts | remove alerts

3번 알림 지워줘 => refuse | no alert

테슬라 얼마야 => quote TSLA
원화로는? => quote TSLA in KRW
작년엔? => history TSLA last_year
그저께는? => refuse
100주면? => quote TSLA & times 100
애플은? => quote AAPL | history AAPL last_year
노키아는? => refuse

삼성전자 얼마야 => !quote 005930
7만원 밑으로 가면 알려줘 => alert 005930 below 70000
그거 지워줘 => refuse | remove alerts 005930

애플이랑 테슬라 비교해줘 => compare AAPL,TSLA month
올해는? => compare AAPL,TSLA year_to_date
삼성전자도 => compare 005930,AAPL,TSLA year_to_date | refuse
테슬라는 빼줘 => refuse

LG 얼마야 => which
3번 => quote 066570
이번달엔? => history 066570 this_month

애플 얼마야 => quote AAPL
왜 올랐어? => refuse
그럼 얼마까지 갈까? => say advice | refuse

하이닉스 20만원 안 넘으면 알려줘 => refuse
네 => refuse

애플 10달러 떨어지면 알려줘 => refuse
테슬라 알림 설정해줘 => refuse
400달러 넘으면 => alert TSLA above 400 | refuse

AAPL => !quote AAPL
50 shares in won => quote AAPL in KRW & times 50
what was it on 2026-03-03 => !history AAPL 2026-03-03
and yesterday => !history AAPL yesterday

apple and tesla price in won and yen => refuse

10 shares of the s&p 500 => refuse

compare apple and tesla volume => refuse

tesla price => !quote TSLA
how does apple compare to last month => refuse
apple vs last year => refuse

비트코인 알림 설정해줘 => refuse
1억 => refuse
9만달러 => !alert BTC-USD ? 90000

애플 300000원 되면 알려줘 => refuse
300달러 => alert AAPL ? 300

euro vs dollar => refuse

삼성전자 주가 알려주고 10주면 얼마야 => quote 005930 & times 10

convert 50 to euro => refuse

tesla yesterday's high => refuse

삼성전자 최고가 얼마야 => refuse

애플 작년 오늘 주가 => refuse

how much is apple / tesla => refuse

100달러 원화로 => convert 100 USD KRW
유로로는? => convert 100 USD EUR
어제는? => refuse
"""


TRIAL = """
Hyundai Motor price => !quote 005380
what's ETH in won? => !quote ETH-USD in KRW
what is apple in yen => !quote AAPL in JPY
what's gold in won? => refuse
what's BTC in won? => !quote BTC-USD in KRW
BTC in KRW => !quote BTC-USD in KRW
price of bitcoin in won => !quote BTC-USD in KRW

테슬라 얼마야 => !quote TSLA
이번달엔? => !history TSLA this_month
어제엔? => !history TSLA yesterday
작년엔? => !history TSLA last_year

삼성전자 작년엔 얼마였어 => !history 005930 last_year
작년엔 어땠어? => !history 005930 last_year

alert me if AAPL goes above 230 and TSLA below 300 => refuse
비트 1억 밑으로 내려가면 알람 => refuse | ImplausiblePrice
alert me at -5 for AAPL => refuse
하이닉스 5% 떨어지면 알려줘 => refuse
알림 1번 삭제해줘 => refuse
cancel alert 99 => refuse
Set an alert for Bitcoin => refuse
비트코인 알림 설정해줘 => refuse

how much is 1.234,56 euro in won => refuse
1,5 euro in won => refuse
how much is 10 shares of apple in won => quote AAPL in KRW & times 10
100 shares of samsung electronics => quote 005930 & times 100
비트코인 0.5개 얼마야 => quote BTC-USD & times 0.5
-100 dollars in won => refuse
유로 원화로 => !convert 1 EUR KRW
$1.5k in won => !convert 1500 USD KRW

what was tesla's price on 2026-03-03 => !history TSLA 2026-03-03
테슬라 3월 3일 종가 => !history TSLA 03-03
how has apple done since 2020 => refuse
apple opening price today => !history AAPL day & open
비트코인 어제보다 올랐어? => !quote BTC-USD
복리로 1000만원 연 5% 10년이면? => refuse
삼성전자 10만원 갈까? => !say advice
언제 가? => !say advice
1000만원으로 삼성전자 몇 주 살 수 있어? => refuse

애플 알림 설정해줘 => say alert_how
230달러 => !alert AAPL ? 230

Is the NYSE open on Thanksgiving? => !calendar NYSE
apple this month => !history AAPL this_month
애플 이번 달 => !history AAPL this_month
애플 지난 달 => !history AAPL last_month
apple last year => !history AAPL last_year
애플 작년 => !history AAPL last_year
apple this quarter => !history AAPL this_quarter
삼성전자 100주 가격 => !quote 005930 & times 100
애플 10주 사려면 => refuse

코스피 지금 몇이야 => !quote KOSPI
이번주 코스피 어땠어? => !history KOSPI this_week
그건 한달동안 어땠어? => !history KOSPI month
그거 한달 전이랑 비교해줘 => refuse
삼성전자 말고 LG전자는? => refuse | quote 066570
추석에 장 열려? => !calendar KRX
크리스마스에 미국장 쉬어? => !calendar NYSE
설날 연휴 휴장일 => !calendar KRX
지금 몇시야 => !clock

is the korean market open tomorrow? => !hours KRX
what day is it today => !clock
what is 17% of 4500 => !calc 765
12*(3+4) => !calc 84
how many won is one euro => !convert 1 EUR KRW
two hundred dollars in won => refuse
AAPL MSFT GOOGL AMZN META => !quote AAPL; quote MSFT; quote GOOGL; quote AMZN; quote META

show my portfolio => !portfolio USD
how much did I gain? => refuse

KODEX 200 => !quote 069500
KODEX 200 얼마 => !quote 069500
s&p 500 etf => !quote SPY
나스닥 100 ETF => !quote QQQ

apple over 5 years => say periods
year => !history AAPL year

애플 5년 수익률 => say periods
한 분기 => !history AAPL quarter

LG price => which 373220,051910,066570
3 => !quote 066570

compare apple => refuse
and tesla => !compare AAPL,TSLA month

삼숭전자 얼마야 => near
네 => refuse | quote 005930

애플 얼마야 => !quote AAPL
TSLA => !quote TSLA
MSFT => !quote MSFT

gold price => refuse
나스닥 지수 => refuse
doge => refuse
write me a poem => refuse
코스닥은? => refuse
"""
"""The lines of the user trial."""


def dialogues(text: str) -> list[list[tuple[str, str]]]:
    blocks = text.strip().split("\n\n")
    return [
        [(said, right) for said, right in (line.rsplit(" => ", 1) for line in each.splitlines())] for each in blocks
    ]
