"""The channels that the settings name: a table of kinds, our own and those of extensions, and what they make."""

import logging
import sys
from collections.abc import Collection, Mapping
from functools import partial
from typing import Final, cast

from msgspec.structs import replace

from finclaw.channels.mailbox import MailboxChannel
from finclaw.channels.settings import ChannelSettings
from finclaw.channels.unreachable import memory_key
from finclaw.clock import SystemClock
from finclaw.config.schema import Settings
from finclaw.errors import ConfigError
from finclaw.extensions.registrar import Registrar
from finclaw.kernel.port import Channel, ChannelFactory, ChannelSpec, Clock
from finclaw.kernel.store_port import Store
from finclaw.pipeline.gate import Heard
from finclaw.text import did_you_mean, suggest_name

log = logging.getLogger(__name__)


def _load_telegram() -> ChannelFactory:
    try:
        from finclaw.channels.telegram.channel import TelegramChannel  # noqa: PLC0415 - an optional dependency
    except ModuleNotFoundError as error:
        install = f"{sys.executable} -m pip install 'aiogram>=3.31'"
        says = f"the kind telegram needs the package {error.name}, which the extra `telegram` names"
        raise ConfigError(f"{says}; run: {install}") from error
    return TelegramChannel


def _make_telegram(spec: ChannelSpec) -> Channel:
    return _load_telegram()(spec)


BUILTIN_KINDS: Final[Mapping[str, ChannelFactory]] = {
    "mailbox": lambda spec: MailboxChannel(spec.name),
    "telegram": _make_telegram,
}
PUBLIC_KINDS: Final = frozenset({"telegram"})
"""Kinds where everybody on the platform can write to us: nobody is heard there who is on no allow list."""
EVERYBODY: Final = "*"  # on an allow list of senders: everybody is heard, on purpose


def hears_everybody(channel: ChannelSettings) -> bool:
    lists = (*channel.allow_senders, *channel.allow_conversations)
    return EVERYBODY in channel.allow_senders or (not lists and channel.kind not in PUBLIC_KINDS)


def channel_kinds(registrar: Registrar) -> dict[str, tuple[ChannelFactory, str]]:
    """Every kind that there is, with who makes it: `FinClaw`, or the extension that brings it."""
    own = {kind: (make, "FinClaw") for kind, make in BUILTIN_KINDS.items()}
    return own | {kind: (make, each.name) for each in registrar.loaded for kind, make in each.channels.items()}


def open_channel(
    name: str, settings: Settings, registrar: Registrar, clock: Clock, store: Store | None = None
) -> Channel:
    """One channel of the settings; without a store it can be looked at, and remembers nothing."""
    if name not in settings.channels:
        known = ", ".join(settings.channels) or "none"
        hint = did_you_mean(name, settings.channels) or f"; there are {known}"
        raise ConfigError(f"the settings have no channel {name!r}{hint}")
    chosen = settings.channels[name]
    kinds = channel_kinds(registrar)
    check_kind(name, chosen.kind, kinds)
    make, by = kinds[chosen.kind]
    spec = ChannelSpec(name=name, account=chosen.account, secrets=chosen.secrets, settings=chosen.settings, clock=clock)
    if store is not None:
        key = memory_key(name)
        recall = partial(store.recall, key, "")
        remember = partial(store.remember, key, "")
        spec = replace(spec, recall=recall, remember=remember, read_blob=store.read_blob)
    try:
        channel = cast("object", make(spec))
    except ConfigError as error:
        raise ConfigError(f"channels.{name}: {error}") from error
    except Exception as error:  # making a channel is where a stranger's failure is contained
        raise ConfigError(f"channels.{name} could not be made by {by}: {type(error).__name__}: {error}") from error
    if getattr(channel, "name", None) != name or not hasattr(channel, "send"):
        raise ConfigError(f"channels.{name}: what {by} made of the kind {chosen.kind!r} is no channel of that name")
    return cast("Channel", channel)


def check_kind(name: str, kind: str, kinds: Collection[str]) -> None:
    """Raises ConfigError if no extension provides this kind, or a package that it needs is not there."""
    if kind not in kinds:
        hint = suggest_name(kind, kinds)
        raise ConfigError(f"channels.{name}.kind is {kind!r}, which no extension provides{hint}")
    try:
        if kind == "telegram":
            _load_telegram()
    except ConfigError as error:
        raise ConfigError(f"channels.{name}: {error}") from error


async def problems_of_channels(settings: Settings, registrar: Registrar) -> tuple[str, ...]:
    """Return what `open_channel` would raise for each channel; nothing is connected to."""
    found: list[str] = []
    for name in settings.channels:
        try:
            channel = open_channel(name, settings, registrar, SystemClock())
        except ConfigError as error:
            found.append(str(error))
        else:
            await channel.close()
    return tuple(found)


def allow_lists(settings: Settings) -> dict[str, Heard]:
    return {
        name: Heard(frozenset(each.allow_senders), frozenset(each.allow_conversations))
        for name, each in settings.channels.items()
        if not hears_everybody(each)
    }


def debounce_pauses(settings: Settings, channels: Mapping[str, Channel]) -> dict[str, int]:
    """How long each channel waits for more of a person, in milliseconds; those that do not wait are left out."""
    own = {name: each.debounce_ms for name, each in settings.channels.items() if each.debounce_ms is not None}
    pauses = {name: own.get(name, _own_pause(channel)) for name, channel in channels.items()}
    return {name: pause for name, pause in pauses.items() if pause}


def _own_pause(channel: Channel) -> int:
    try:
        return channel.capabilities.debounce_ms
    except Exception:  # a channel is a stranger's code; its messages fail one by one, and the others' do not
        log.exception("the capabilities of the channel %r cannot be read", channel.name)
        return 0
