"""Stage 1, normalize: the standard form of a message.

The text a person wrote is kept as it is; only a copy is tidied.
"""

import re
from typing import Final

from msgspec import Struct

from finclaw.kernel.envelope import Inbound
from finclaw.pipeline.journal import skip

_MENTION: Final = re.compile(r"<@!?([A-Za-z0-9_.:-]{1,128})>")
_MENTIONS_IN_FRONT: Final = re.compile(rf"(?:{_MENTION.pattern} ?)+")
_URL: Final = re.compile(r"https?://[^\s<>]{1,2000}", re.IGNORECASE)
_TRAILING: Final = ".,;:!?\"'、。」』】…"
_BRACKETS: Final = {")": "(", "]": "[", "}": "{"}


class NormalMessage(Struct, frozen=True):
    """A message in standard form.

    `inbound.text` is for the agent; `content` is one tidy line for matching, mentions taken out of its front.
    """

    inbound: Inbound
    content: str
    mentions: tuple[str, ...]
    urls: tuple[str, ...]
    is_bot: bool


def normalize(inbound: Inbound) -> NormalMessage:
    if inbound.sender.is_self:
        raise skip("our own message")
    if inbound.sender.is_bot:
        raise skip("written by another bot: two bots could talk for ever")
    if inbound.kind in ("delete", "reaction"):
        raise skip(f"{inbound.kind} of message {inbound.target}: recorded, and nothing to answer")
    if not inbound.text.strip() and not inbound.attachments:
        raise skip("empty message")
    return NormalMessage(
        inbound=inbound,
        content=tidy(inbound.text),
        mentions=tuple(dict.fromkeys(_MENTION.findall(inbound.text))),
        urls=_urls(inbound.text),
        is_bot=inbound.sender.is_bot,
    )


def tidy(text: str) -> str:
    """One line, without the mentions in front."""
    line = " ".join(text.split())
    front = _MENTIONS_IN_FRONT.match(line)
    return line if front is None else line[front.end() :]


def _urls(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_trim(found) for found in _URL.findall(text)))


def _trim(url: str) -> str:
    """Leave out the sentence's own punctuation, and a closing bracket that was never opened inside the address."""
    while url and (url[-1] in _TRAILING or _lacks_opening_bracket(url)):
        url = url[:-1]
    return url


def _lacks_opening_bracket(url: str) -> bool:
    opening = _BRACKETS.get(url[-1])
    return opening is not None and url.count(url[-1]) > url.count(opening)
