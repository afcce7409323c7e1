"""`finclaw channels`: where people can write, and whether a channel can be reached."""

import asyncio
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from finclaw.channels.settings import GATEWAYS_OWN, ChannelSettings
from finclaw.cli.arguments import add_json_option, settings_from, settings_to_look, start_actions
from finclaw.cli.commands.status import find_status
from finclaw.cli.formatting import UNKNOWN, fit_table, one_line, print_result
from finclaw.clock import SystemClock
from finclaw.composition.channels import channel_kinds, check_kind, hears_everybody, open_channel
from finclaw.composition.extensions import load_registrar
from finclaw.config.schema import Settings
from finclaw.errors import ChannelError, ConfigError
from finclaw.gateway import UnreachableChat

_HEAD = ("CHANNEL", "KIND", "FROM", "ACCOUNT", "SECRETS", "HEARD")
CHECK_SECONDS: Final = 20.0
_View = Mapping[str, Any]


def arguments(parser: ArgumentParser) -> None:
    add_action = start_actions(parser)
    add_json_option(add_action("list", "list the channels of the settings, and the kinds that there are", _list))
    action = add_action("test", "find out whether a channel can be reached; it sends nothing", _test)
    action.add_argument("name", metavar="NAME", help="the channel, as the settings call it")
    add_json_option(action)


def run(args: Namespace) -> None:
    args.act(args)


def _list(args: Namespace) -> None:
    settings = settings_to_look(args)
    makers = {kind: by for kind, (_, by) in channel_kinds(load_registrar(settings)).items()}
    lost = find_status(settings).unreachable if settings.channels else ()
    described = [_describe(name, settings, makers) for name in settings.channels]
    view = {"channels": described, "kinds": makers, "own": GATEWAYS_OWN, "unreachable": lost}
    print_result(args, view, _lines(settings, described, makers, lost))


def _lines(
    settings: Settings, described: Sequence[_View], makers: Mapping[str, str], lost: Sequence[UnreachableChat]
) -> Iterator[str]:
    if described:
        yield from fit_table([_HEAD, *(_row(each, settings.channels[each["name"]]) for each in described)])
    else:
        yield "no channels are configured; `finclaw chat`, `finclaw ask` and the HTTP API need none"
    yield f"kinds: {', '.join(f'{kind} ({by})' for kind, by in makers.items())}"
    if lost:
        yield "not reachable any more, until they write again:"
        rows = [("", each.channel, one_line(each.conversation), one_line(each.reason, 200)) for each in lost]
        yield from fit_table(rows)


def _describe(name: str, settings: Settings, makers: Mapping[str, str]) -> _View:
    channel = settings.channels[name]
    problem = ""
    try:
        check_kind(name, channel.kind, makers)
    except ConfigError as error:  # the gateway would refuse to start with it
        problem = str(error)
    return {
        "name": name,
        "kind": channel.kind,
        "from": makers.get(channel.kind),
        "account": channel.account,
        "secrets": sorted(channel.secrets),
        "allow_senders": channel.allow_senders,
        "allow_conversations": channel.allow_conversations,
        "problem": problem,
    }


def _row(view: _View, channel: ChannelSettings) -> tuple[str, ...]:
    heard = (*channel.allow_senders, *(f"all in {each}" for each in channel.allow_conversations))
    text = ", ".join(heard) or "nobody yet: allow_senders is empty"
    if view["problem"]:
        text = f"nobody: {view['problem']}"
    elif hears_everybody(channel):
        text = "everybody"
    maker = view["from"] or "nobody: no such kind"
    return (view["name"], channel.kind, maker, channel.account, " ".join(view["secrets"]) or UNKNOWN, text)


def _test(args: Namespace) -> None:
    settings = settings_from(args)
    said = asyncio.run(_check(args.name, settings))
    found = {"name": args.name, "kind": settings.channels[args.name].kind, "ok": True, "says": said}
    print_result(args, found, [f"{args.name}: ok, {said}"])


async def _check(name: str, settings: Settings) -> str:
    """Raises ConfigError for a channel that cannot be made, ChannelError for one that cannot be reached."""
    registrar = load_registrar(settings)
    channel = open_channel(name, settings, registrar, SystemClock())
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            return await channel.check()
    except TimeoutError as error:
        raise ChannelError(f"channel {name} did not answer within {CHECK_SECONDS:g} s; is its platform up?") from error
    except ChannelError as error:
        raise ChannelError(f"channel {name}: {error}") from error
    finally:
        await channel.close()
        await registrar.close()
