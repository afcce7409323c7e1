"""The page at `/`, until the real one comes: it says that the gateway runs and how to ask."""

from collections.abc import Sequence
from html import escape

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>FinClaw</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.6 system-ui, sans-serif; max-width: 44rem; margin: 3rem auto; padding: 0 1rem; }}
pre {{ padding: 1rem; overflow-x: auto; border: 1px solid #8886; border-radius: .5rem; }}
</style>
</head>
<body>
<h1>FinClaw is running</h1>
<p lang="ko">FinClaw가 실행 중입니다. 아래 명령으로 질문해 보세요.</p>
<p>Market: <strong>{market}</strong></p>
<p>Ask from a terminal:</p>
<pre>finclaw ask "What is AAPL trading at?"
finclaw ask "삼성전자 현재 주가 알려줘"</pre>
<p>Or over HTTP. The token is in the file <code>token</code> of the state directory
(<code>~/.finclaw</code> unless you chose another); <code>finclaw status</code> says where that is.</p>
<pre>curl {url}/api/v1/messages \\
  -H "Authorization: Bearer $(cat ~/.finclaw/token)" \\
  -H "Content-Type: application/json" \\
  -d '{{"message_id": "'$(date +%s%N)'", "text": "What is AAPL trading at?"}}'

curl "{url}/api/v1/messages/INBOUND_ID?wait=20" \\
  -H "Authorization: Bearer $(cat ~/.finclaw/token)"</pre>
<p>A <code>message_id</code> is yours and names one message for ever: sent again with the same text it is the same
message, with another text it is refused.</p>
<p>All there is:</p>
<pre>{paths}</pre>
</body>
</html>
"""


def render_page(url: str, market: str, paths: Sequence[str]) -> str:
    """`paths` are the API's, each with its method."""
    described = "demo: prices are made up and follow no real market" if market == "demo" else market
    return _PAGE.format(url=escape(url), market=escape(described), paths=escape("\n".join(paths)))
