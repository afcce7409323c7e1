"""The finance extension: its tools, one section of the prompt, one layer around every delivery."""

from collections.abc import Callable

from msgspec import structs

from finclaw.errors import ExtensionError
from finclaw.finance.alerts import Alerts
from finclaw.finance.calendar import judge_expiry
from finclaw.finance.convert import convert_tool
from finclaw.finance.history import compare_tool, history_tool
from finclaw.finance.hours import calendar_tool, hours_tool
from finclaw.finance.market import DEMO_SOURCE, Market
from finclaw.finance.market_context import LastQuotes
from finclaw.finance.output import PRICE_FIELDS, language_of_reply, name_sources
from finclaw.finance.portfolio import portfolio_tool
from finclaw.finance.quote import quote_tool
from finclaw.kernel.calendar import Calendar
from finclaw.kernel.envelope import Outbound
from finclaw.kernel.extension import ExtensionApi
from finclaw.kernel.port import Tool
from finclaw.kernel.scope import DeliveryContext
from finclaw.tools.control_tokens import with_last_line
from finclaw.tools.unsourced_figures import NO_SOURCE

_PROMPT = """\
Prices come from the {source}. Every figure you write must come from a tool result of this conversation or from the
user: call market__quote before you speak of a price, give its as-of time, and never estimate one, remember one
or make one up. Convert with fx__convert and compare with market__compare instead of calculating. When a tool fails,
say so and give no figure. When a name is not certain, ask which one is meant."""

_LIVE_PROMPT = """
Prices are real, and each result names its source. When you give a price, say the source and the as-of time in the
user's zone, and whatever the result says besides: that it is delayed, unconfirmed or stale, from when a coin's change
is counted, that a rate is a fixing and of which day. A price of the pre- or after-market is told apart from the close.
When no source answers, say which ones failed and give no figure."""

_DEMO_PROMPT = """
The demo market is simulated: its prices are not real quotes, and you say so when you give one."""

DEMO_LINES = {
    "en": "(Demo market: simulated prices, not real quotes.)",
    "ko": "(데모 시장: 실제 시세가 아닌 모의 가격입니다.)",
}
"""The line that keeps a made-up price from being taken for a real one, by language."""


def finance_tools(market: Market, calendar: Calendar) -> tuple[Tool, ...]:
    return (
        quote_tool(market),
        history_tool(market),
        compare_tool(market),
        hours_tool(market, calendar),
        calendar_tool(market, calendar),
        convert_tool(market),
        portfolio_tool(market),
        *Alerts(market).tools(),
    )


class Finance:
    name = "finance"

    def __init__(self, open_market: Callable[[ExtensionApi], Market], calendar: Calendar) -> None:
        """`open_market` is called once, when the extension is registered: a live market needs what the api gives."""
        self._open_market = open_market
        self._calendar = calendar
        self._is_demo = True
        self._market: Market | None = None
        self.last_quotes = LastQuotes()
        """What was asked about last, by session; filled where prices are told, by tools and commands alike."""

    @property
    def market(self) -> Market:
        if self._market is None:
            raise ExtensionError("the market is opened when finance is registered; register what needs it behind it")
        return self._market

    def register(self, api: ExtensionApi) -> None:
        market = self._market = self._open_market(api)
        self._is_demo = market.source == DEMO_SOURCE
        for tool in finance_tools(market, self._calendar):
            api.tools.register(tool)
        prompt = _PROMPT.format(source=market.source)
        prompt += _DEMO_PROMPT if self._is_demo else _LIVE_PROMPT
        api.prompt.section("Market data", prompt, priority=750, required=True)
        # Far out, so that it labels what the other layers have made of the reply and not what they started from.
        api.pipeline.register("delivery", self.label, priority=-100)
        api.doctor.check("calendars", lambda: judge_expiry(api.clock.now().date()))
        expiry = judge_expiry(api.clock.now().date())
        if expiry.result != "ok":
            api.logger.warning("%s; %s", expiry.text, expiry.advice)

    async def label(self, ctx: DeliveryContext) -> Outbound:
        """Prices go stale, and made-up ones must be called so."""
        outbound = await ctx.next()
        facts = ctx.outbound.facts
        if ctx.turn is not None:
            facts = (*facts, *ctx.turn.facts)
        if facts:
            self.last_quotes.remember(ctx.ids["session"], facts)
        if outbound.kind != "reply" or ctx.kind == "block":
            return outbound
        text = outbound.text
        asked = ctx.inbound.text
        begun = ctx.is_sent_in_blocks
        is_made_up = self._is_demo and any(line in text for line in NO_SOURCE.values())
        if is_made_up or any(fact.source == DEMO_SOURCE for fact in facts):
            return structs.replace(outbound, text=disclose_demo(text, asked, begun=begun), perishable=True)
        if self._is_demo or not any(fact.field in PRICE_FIELDS for fact in facts):
            return outbound
        return structs.replace(outbound, text=name_sources(text, facts, asked, begun=begun), perishable=True)


def disclose_demo(reply: str, question: str, *, begun: bool = False) -> str:
    """The reply with the line at its end, in the reply's language; unchanged if it has it or says nothing at all."""
    if any(line in reply for line in DEMO_LINES.values()):
        return reply
    return with_last_line(reply, DEMO_LINES[language_of_reply(reply, question)], begun=begun)
