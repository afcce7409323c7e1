"""What these commands know of a gateway, and the form in which they say it."""

from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from finclaw.gateway import Gateway
from finclaw.kernel.chunk import Model
from finclaw.kernel.envelope import Capabilities, TurnOptions
from finclaw.kernel.message import Message
from finclaw.kernel.person import Person
from finclaw.kernel.port import CommandReply, CommandScope
from finclaw.text import Language


class CommandSources(Struct, frozen=True, kw_only=True):
    """The parts of a gateway that these commands ask. Functions, because the gateway is made after its commands."""

    prefix: str
    gateway: Callable[[], Gateway]
    defaults: TurnOptions
    """What the settings say, with nothing left open."""
    models: Sequence[str]
    """The names of models that the settings have, the usual one first."""
    kept: Callable[[str], TurnOptions]
    """The options of a session."""
    find_model: Callable[[str | None], Model]
    measure: Callable[[Sequence[Message], str | None], int]
    """Tokens that these messages take for a model, with what stands before them, by our estimate."""
    waiting: Callable[[str], int]
    """Messages of a session that have no answer yet."""
    save_person: Callable[[Person], Awaitable[None]]
    describe_settings: Callable[[str], Sequence[str]]
    """Lines about the settings of a section, secrets redacted; empty name: those that are not as they come."""
    channel: Callable[[str], Capabilities]


def choose(language: Language, english: str, korean: str) -> str:
    return korean if language == "ko" else english


def tell(text: str) -> CommandReply:
    """An answer that is for the caller alone, where the channel can do that."""
    return CommandReply(text, ephemeral=True)


def is_private(scope: CommandScope, sources: CommandSources) -> bool:
    """Whether nobody but the caller will read the answer."""
    return scope.inbound.chat_type == "direct" or sources.channel(scope.inbound.channel).ephemeral


def refuse_in_public(scope: CommandScope) -> CommandReply:
    return tell(
        choose(
            scope.language,
            "I answer this only in a direct chat, because others can read along here.",
            "다른 사람도 볼 수 있는 곳이라 1:1 대화에서만 답할 수 있습니다.",
        )
    )
