"""186 lines, half of them Korean, written without having read the parser, in the form of `strict_lines`.

What stands behind a line is what the assistant did when it was first run, after each answer had been read and none was
found wrong but one, which was mended. So `refuse` records a refusal, which is always allowed, and not that an answer
would be wrong. Two lines are reworded for the checker: a number as digits, a date with its year.
"""

HELD_OUT = """
how much would 3 bitcoins cost me => convert 3 BTC KRW

what is half a bitcoin worth in euros => refuse

is apple cheaper than microsoft => refuse

apple vs microsoft since january => refuse

what did nvidia close at on friday => refuse

tesla price two weeks ago => refuse

how much has meta lost this week => history META this_week

give me amazon's market cap => refuse

what's the p/e of apple => refuse

dividend yield of coca cola => refuse

show me the 52 week high of tesla => history TSLA year

price of apple without tax => refuse

apple, but in swiss francs => refuse

1000 yen in won please => convert 1000 JPY KRW

convert 1 000 000 won to dollars => refuse

how many dollars is 5.000 euros => refuse

5 million won in euros => convert 5000000 KRW EUR

what's 3.5k usd in yen => convert 3500 USD JPY

0 dollars in won => convert 0 USD KRW

$20 and €30 in won => refuse

buy 10 apple shares => refuse

sell all my tesla => refuse

what happens to apple if rates rise => refuse

should i buy nvidia now => refuse

when will bitcoin hit 200k => refuse

tell me when apple is at 250 or 200 => refuse

alert me if tesla drops 10% => refuse

alert me when bitcoin is not above 90000 => refuse

let me know if samsung goes over 80000 dollars => refuse

remind me tomorrow to check apple => refuse

alert nvidia below 100 by friday => refuse

delete my second alert => refuse

is the market open on christmas eve => refuse

when does the tokyo exchange open => refuse

is nyse open right now in seoul time => hours NYSE; hours KRX

how much did the s&p 500 gain last year => history SPX last_year

nasdaq composite today => refuse

what was the kospi in 1997 => refuse

oil price => refuse

price of silver in euros => refuse

what is apple trading at after hours => refuse

pre-market nvidia => refuse

highest price of apple ever => refuse

lowest close of tesla this month => refuse

average price of apple over the last 30 days => refuse

volume of nvidia yesterday => refuse

how volatile is tesla => refuse

apple price tomorrow => refuse

what was apple yesterday minus today => refuse

is 300 dollars a good price for tesla => refuse

what is 12 percent of 250000 => refuse

sqrt(2)*10 => refuse

2^10 => calc 1024

100/0 => refuse

if i invested 1000 dollars in apple last year what would i have now => refuse

how much is 10 shares of apple and 5 of tesla => refuse

my portfolio in dollars => portfolio USD

how much is my portfolio down since monday => refuse

which of my stocks is the worst => refuse

what did i pay for apple => refuse

dow jones => refuse

eth/btc => quote ETH-USD; quote BTC-USD

how much is one ethereum in bitcoin => quote ETH-USD in BTC

usd krw last year => history USD/KRW last_year

is the won stronger than yesterday => refuse

what's apple not in dollars => refuse

apple's ceo => refuse

compare apple tesla nvidia and doge => refuse

the price of AAPL on 2026-02-30 => refuse

apple on 2026-11-14 => refuse

apple between march and june => refuse

samsung preferred price => refuse

what is samsung electronics in dollars and yen => refuse

price for 1,000 shares of kakao => quote 035720 & times 1000

twice the price of apple => refuse

negative 5 dollars in won => refuse

apple price => quote AAPL
and minus 10%? => refuse

tesla price => quote TSLA
and a year ago? => refuse
and twice that? => refuse
and in pounds? => quote TSLA in GBP

microsoft price => quote MSFT
what about doge? => refuse
in won => refuse

AAPL => quote AAPL
not apple, tesla => refuse

samsung price => refuse
neither => refuse

compare apple and tesla => compare AAPL,TSLA month
only apple => refuse
since march => refuse

alert me when apple goes above 240 => alert AAPL above 240
make it 250 => refuse
and tesla below 200 => refuse
cancel => refuse

비트코인 3개면 얼마야 => quote BTC-USD & times 3

애플 열 주 사면 얼마 들어 => refuse

이더리움 0.3개 원화로 => quote ETH-USD in KRW & times 0.3

삼성전자 50주 팔면 얼마 => refuse

삼성전자 3개월 전 가격 => refuse

지난주 금요일 테슬라 종가 => refuse

애플 2026년 11월 2일 종가 => history AAPL 2026-11-02

현대차 상장 이후 수익률 => refuse

엔비디아 시가총액 => refuse

애플 배당금 얼마야 => refuse

삼성전자 PER => refuse

테슬라 52주 최고가 => history TSLA year

카카오 액면가 => refuse

네이버랑 카카오 중에 뭐가 더 올랐어 => compare 035420,035720 month

삼성전자 살까 말까 => refuse

비트코인 언제 2억 가? => refuse

내일 코스피 오를까 => refuse

하이닉스 20만원 안 넘으면 알려줘 => refuse

애플 230달러에서 250달러 사이면 알려줘 => refuse

테슬라 10퍼센트 오르면 알림 => refuse

삼성전자 8만 넘으면 알려줘 => alert 005930 above 80000

삼성전자 80달러 넘으면 알려줘 => refuse

비트코인 10만 달러 밑으로 떨어지면 알려줘 => alert BTC-USD below 100000

3번 알림 지워 => refuse

환율 알려줘 => quote USD/KRW

엔화 환율 => quote USD/JPY

엔 얼마야 => quote USD/JPY

100엔은 몇 원이야 => convert 100 JPY KRW

만원이면 몇 달러 => convert 10000 KRW USD

1억 5천만원은 몇 달러야 => convert 150000000 KRW USD

3천달러 원화로 => convert 3000 USD KRW

반 비트코인 얼마 => refuse

달러 오천불 원으로 => refuse

-300달러 원화로 => refuse

1.5억원 유로로 => convert 150000000 KRW EUR

유로 100 엔으로 => refuse

오늘 며칠이야 => refuse

지금 뉴욕 몇 시야 => refuse

수능날 장 몇 시에 열어 => refuse

내일 한국장 열려? => refuse

삼일절에 증시 쉬나요 => calendar KRX

미국 추수감사절 휴장이야? => refuse

일본장 열렸어? => refuse

금값 얼마야 => refuse

유가 알려줘 => refuse

코스닥 지수 => refuse

다우지수 얼마야 => refuse

나스닥 100 지수 => refuse

S&P500 작년 수익률 => history SPX last_year

120000 나누기 3 => calc 40000

5만원의 3.3% => refuse

연 4% 적금 월 50만원 2년 => refuse

내 수익률 얼마야 => refuse

내 주식 중 제일 많이 떨어진 거 => refuse

내가 애플 얼마에 샀지 => refuse

포트폴리오 원화로 보여줘 => portfolio KRW

애플 말고 테슬라 => refuse

삼성 빼고 LG만 => refuse

애플이랑 테슬라 작년 비교 => compare AAPL,TSLA last_year

애플 시간외 => refuse

테슬라 장전 가격 => refuse

카카오 어제 거래량 => refuse

네이버 최고가 언제였어 => refuse

하이닉스 평균 가격 한 달 => refuse

애플 두 배 => refuse

애플 가격 부가세 빼고 => refuse

삼성전자 사줘 => refuse

전부 팔아줘 => refuse

테슬라 얼마야 => quote TSLA
그럼 10주는? => quote TSLA & times 10
작년 이맘때엔? => refuse
엔으로는? => refuse

카카오 얼마야 => quote 035720
뱅크는? => refuse
둘 다 한 달 => refuse

삼성전자 주가 => quote 005930
우선주는? => refuse
달러로 => refuse
어제는? => refuse

애플 알림 해줘 => refuse
250달러 => alert AAPL
아니 260 => refuse
취소 => refuse

환율 => quote USD/KRW
유로 => quote EUR/USD
반대로 => refuse

비트코인 올해 => history BTC-USD year_to_date
이더리움은? => history ETH-USD year_to_date
작년엔? => history ETH-USD last_year
둘 비교해줘 => refuse
"""
