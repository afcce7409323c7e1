"""What is right and wrong with a bot, in words, for `finclaw channels test`."""

from collections.abc import Iterator

from aiogram.types import User, WebhookInfo

from finclaw.channels.telegram.options import WebhookOptions


def describe_bot(me: User, info: WebhookInfo, webhook: WebhookOptions | None) -> str:
    return "; ".join((f"the token is that of @{me.username}", *_describe_way_in(info, webhook), *_describe_groups(me)))


def _describe_way_in(info: WebhookInfo, webhook: WebhookOptions | None) -> Iterator[str]:
    if webhook is None:
        yield "messages come by polling"
        if info.url:
            yield f"the webhook {info.url} is still set, and the gateway removes it when it starts"
    elif info.url == webhook.url:
        yield f"the webhook {info.url} is set"
    else:
        now = f"is {info.url}" if info.url else "is not set"
        yield f"the webhook {now}, and the gateway sets {webhook.url} when it starts"
    if webhook is not None and info.last_error_message:
        listens = f"http://{webhook.host}:{webhook.port}"
        yield (
            f"Telegram's last call of the webhook failed ({info.last_error_message}): check that the gateway runs and "
            f"that your proxy passes {webhook.url} on to {listens}"
        )
    if info.pending_update_count:
        yield f"updates that wait for the gateway: {info.pending_update_count}"


def _describe_groups(me: User) -> Iterator[str]:
    if me.can_join_groups is False:
        yield "it cannot be added to groups (to change it: @BotFather, /mybots, the bot, Bot Settings, Allow Groups?)"
    elif me.can_read_all_group_messages:
        yield "in groups it is given every message, because privacy mode is off"
    else:
        yield (
            "in groups it is given only commands, mentions and replies to it, because privacy mode is on (to change "
            "it: @BotFather, /mybots, the bot, Bot Settings, Group Privacy, Turn off; then add the bot to "
            "the group again)"
        )
