"""The one function that names a session. Lane, store and lock all go by it."""

from urllib.parse import quote

from finclaw.kernel.envelope import Inbound


def session_key(agent: str, inbound: Inbound) -> str:
    """`agent:channel:account:chat-type:peer[:thread]`, each part escaped so that no id can pose as two.

    In a direct chat the peer includes the sender wherever the channel's conversation does not already name them:
    two people never share a history by accident.
    """
    peer = _escape(inbound.conversation)
    if inbound.chat_type == "direct" and inbound.sender.id != inbound.conversation:
        peer = f"{peer}+{_escape(inbound.sender.id)}"
    parts = [_escape(agent), _escape(inbound.channel), _escape(inbound.account), inbound.chat_type, peer]
    if inbound.thread is not None:
        parts.append(_escape(inbound.thread))
    return ":".join(parts)


def _escape(part: str) -> str:
    return quote(part, safe="", errors="surrogatepass")
