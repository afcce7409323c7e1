"""`finclaw ask`: one question, one answer. Through the running gateway if there is one, else right here."""

import asyncio
import logging
import sys
import time
from argparse import Namespace

import msgspec

from finclaw.cli.address import read_address
from finclaw.cli.options import settings_from, settings_to_look
from finclaw.config.schema import Settings
from finclaw.errors import ConfigError, FinclawError, StateBusy
from finclaw.kernel.clock import SystemClock
from finclaw.kernel.envelope import new_id
from finclaw.kernel.log import start_logging
from finclaw.tools.guard.told import without_secrets
from finclaw.web.principal import CHANNEL as WEB
from finclaw.web.principal import OWNER, MessageBody, inbound
from finclaw.web.view import OutcomeView, outcome_view

PATIENCE = 10.0
"""Seconds to wait for a state that is busy: a gateway is starting, or another `finclaw ask` is at it."""

QUIET_SUCCESS = ("answered", "command", "skipped", "joined")


def run(args: Namespace) -> int:
    settings = settings_to_look(args, {"market": args.market})
    body = MessageBody(message_id=new_id(), conversation=_session(args.session), text=_text(args.text))
    _log(settings, verbose=args.verbose)
    view = _ask(settings, body, args)
    _show(view, as_json=args.json)
    return 0 if view.outcome in QUIET_SUCCESS else 1


def _ask(settings: Settings, body: MessageBody, args: Namespace) -> OutcomeView:
    clock = SystemClock()
    give_up = clock.monotonic() + PATIENCE
    while True:
        view = _through_gateway(settings, body, args.market)
        if view is not None:
            return view
        try:
            return asyncio.run(_here(settings_from(args, {"market": args.market}), body))
        except StateBusy:
            if clock.monotonic() > give_up:
                raise
            time.sleep(0.1)


def _through_gateway(settings: Settings, body: MessageBody, market: str | None) -> OutcomeView | None:
    if read_address(settings.state) is None:
        return None
    from finclaw.cli.client import find_gateway  # noqa: PLC0415  the HTTP client costs 20 ms; mostly nobody listens

    client = find_gateway(settings.state)
    if client is None:
        return None
    if market is not None and (running := client.status().market) != market:
        raise FinclawError(f"the gateway at {client.address.url} uses the {running} market; leave out --{market}")
    return client.ask(body)


async def _here(settings: Settings, body: MessageBody) -> OutcomeView:
    from finclaw.app import build  # noqa: PLC0415  the whole house; not needed to talk to a running one
    from finclaw.channels.mailbox import MailboxChannel  # noqa: PLC0415

    # The owner's own mailbox, as if it had come by the API: the conversation is the same with and without a gateway.
    async with build(settings, channels=(MailboxChannel(WEB),)) as app:
        return outcome_view(await app.handle(inbound(OWNER, body)))


def _text(words: list[str]) -> str:
    if words == ["-"] or (not words and not sys.stdin.isatty()):
        try:
            text = sys.stdin.buffer.read().decode("utf-8").removesuffix("\n")
        except UnicodeDecodeError as error:
            raise ConfigError("standard input is not UTF-8 text; convert it first, for example with iconv") from error
    else:
        text = " ".join(words)
    if not text.strip():
        raise ConfigError('there is no question; try: finclaw ask "What is AAPL trading at?"')
    if not _is_unicode(text):
        raise ConfigError("the question is not UTF-8 text; check your terminal's character encoding")
    return text


def _session(key: str) -> str:
    if not 1 <= len(key) <= 200 or not _is_unicode(key):
        raise ConfigError("--session takes a name of 1 to 200 characters of UTF-8 text; try: --session main")
    return key


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _log(settings: Settings, *, verbose: bool) -> None:
    if verbose:
        start_logging(settings.log.level, "plain", without_secrets)
    else:  # the outcome says what went wrong; a log between question and answer helps nobody
        logging.getLogger("finclaw").addHandler(logging.NullHandler())
        logging.getLogger("finclaw").propagate = False


def _show(view: OutcomeView, *, as_json: bool) -> None:
    if as_json:
        fields = {name: getattr(view, name) for name in OutcomeView.__struct_fields__}
        print(msgspec.json.encode(fields).decode())
    elif view.reply is not None:
        print(view.reply)
    if view.outcome not in ("answered", "command") and not as_json:
        reason = f": {view.reason}" if view.reason else ""
        print(f"finclaw: the message ended as {view.outcome}{reason}", file=sys.stderr)
