"""The one function that names a session, and its inverse. Lane, store and lock all go by it."""

import re
from typing import Final, NamedTuple, cast, get_args
from urllib.parse import quote, unquote

from finclaw.kernel.envelope import ChatType, Inbound, Sender

_PLAIN: Final = re.compile(r"[A-Za-z0-9_.~-]*").fullmatch
"""What `quote` would give back as it is: nearly every name. Others are not remembered: they are as many as chats."""


def session_key(agent: str, inbound: Inbound) -> str:
    """`agent:channel:account:chat-type:peer[:thread]`, each part escaped so that no id can pose as two.

    In a direct chat the peer includes the sender wherever the channel's conversation does not already name them:
    two people never share a history by accident.
    """
    names = [agent, inbound.channel, inbound.account, inbound.conversation, inbound.sender.id, inbound.thread or ""]
    if not _PLAIN("".join(names)):
        names = [quote(name, safe="", errors="surrogatepass") for name in names]
    agent, channel, account, peer, sender, thread = names
    if inbound.chat_type == "direct" and sender != peer:
        peer = f"{peer}+{sender}"
    key = f"{agent}:{channel}:{account}:{inbound.chat_type}:{peer}"
    return key if inbound.thread is None else f"{key}:{thread}"


class Place(NamedTuple):
    """Where a session is held, and with whom: the other person of a direct chat; nobody in a shared one."""

    agent: str
    channel: str
    account: str
    chat_type: ChatType
    conversation: str
    peer: str | None
    thread: str | None

    def inbound(self, text: str = "", message_id: str = "") -> Inbound:
        return Inbound(
            text=text,
            message_id=message_id,
            channel=self.channel,
            account=self.account,
            conversation=self.conversation,
            chat_type=self.chat_type,
            thread=self.thread,
            sender=Sender(self.agent if self.peer is None else self.peer),
        )


def place_of(key: str) -> Place | None:
    """Return the inverse of `session_key`; None for a text that names no session."""
    parts = key.split(":")
    if len(parts) not in (5, 6) or parts[3] not in get_args(ChatType):
        return None
    try:
        place = _read(parts)
    except UnicodeDecodeError:
        return None
    if session_key(place.agent, place.inbound()) != key:  # half an escape, which `session_key` would not write
        return None
    return place


def _read(parts: list[str]) -> Place:
    conversation, plus, sender = parts[4].partition("+")
    peer = _unescape(sender if plus else conversation)
    return Place(
        agent=_unescape(parts[0]),
        channel=_unescape(parts[1]),
        account=_unescape(parts[2]),
        chat_type=cast("ChatType", parts[3]),
        conversation=_unescape(conversation),
        peer=peer if parts[3] == "direct" else None,
        thread=_unescape(parts[5]) if len(parts) > 5 else None,
    )


def _unescape(part: str) -> str:
    return unquote(part, errors="surrogatepass")
