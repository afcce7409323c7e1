"""Messages in and out as the channels carry them, and the options of the turns that they begin."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct, field
from msgspec.structs import asdict

from finclaw.ids import new_id
from finclaw.kernel.fact import Fact
from finclaw.text import Language, LengthUnit, language_of

ThinkingLevel = Literal["off", "low", "medium", "high"]
Verbosity = Literal["low", "medium", "high"]
QueueMode = Literal["auto", "followup", "steer", "queue", "collect", "interrupt", "steer-backlog"]
"""What a message does while another of its session is being answered."""
THOUGHTS: Final[dict[ThinkingLevel, int]] = {"off": 0, "low": 4_096, "medium": 10_240, "high": 24_576}
"""Tokens that a model may think with, beside those of its answer."""


class TurnOptions(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """They hold for one turn, or for all turns of a session where somebody has set them for it."""

    model: str | None = None
    """A model or an alias. It alone answers then, or nobody does: no fallback is asked in its place."""
    thinking: ThinkingLevel | None = None
    verbosity: Verbosity | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    max_tokens: Annotated[int, Meta(ge=1)] | None = None
    queue: QueueMode | None = None

    def fill_from(self, other: "TurnOptions") -> "TurnOptions":
        """These options, and where they leave something open, what the other says."""
        if other == NO_OPTIONS:
            return self
        given = {name: value for name, value in asdict(self).items() if value is not None}
        return TurnOptions(**{**asdict(other), **given})


NO_OPTIONS: Final = TurnOptions()
OPTIONS: Final = "options"
"""The key of a message's metadata under which the options of its turn are kept."""
ChatType = Literal["direct", "group", "channel"]
InboundKind = Literal["message", "edit", "delete", "reaction", "action"]
"""`edit`, `delete` and `reaction` tell of an earlier message, its `target`; an `action` is a pressed button under one
of ours, and its text is the command that the button stands for."""
OutboundKind = Literal["reply", "notice", "confirmation"]
"""`notice` is the gateway speaking for itself; a `confirmation` of an order is never sent twice."""


class Sender(Struct, frozen=True):
    """The author of a message, as the channel or token authenticated them; never a field of the message's body."""

    id: str
    name: str = ""
    roles: tuple[str, ...] = ()
    """What they are here. Behind the gate they come from the settings; what a channel claims does not count."""
    is_bot: bool = False
    is_self: bool = False
    """It is our own account on that platform that wrote."""
    language: str = ""
    """That of their program there, as a tag such as `ko`, for what they send without words."""


AttachmentKind = Literal["image", "audio", "video", "file"]
AttachmentProblem = Literal["large", "broken", "refused", "unreachable", "many"]


class Attachment(Struct, frozen=True, kw_only=True):
    id: str
    kind: AttachmentKind
    mime: str = "application/octet-stream"
    name: str = ""
    size: int | None = None
    blob: str | None = None  # the SHA-256 of its content, once that is kept
    problem: AttachmentProblem | None = None  # why its content is not kept


PoolName = Literal["main", "cron", "subagent"]


class Limits(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Limits of an internal message's turn. Only the gateway sets it; no channel does."""

    pool: PoolName = "main"
    tools: tuple[str, ...] | None = None
    """The only tools it may use; None: all of them."""
    max_steps: int | None = None
    wishes: TurnOptions | None = None
    approval: str | None = None
    """The approval whose action this turn runs before anything else."""
    sources: tuple[str, ...] = ()
    """Strangers' words that the turn which gave this task had read: its own turn counts as having read them too."""
    person: str = ""
    """The id of the person for whom a helper's turn runs."""


class Inbound(Struct, frozen=True, kw_only=True):
    """One message as a channel saw it. (channel, account, conversation, message_id) names it for ever.

    An edit is named by the message that it changes and the time of the change, a deletion by the message alone;
    a reaction and an action have an id of their own.
    """

    text: str
    """Of an edit the new words, of a reaction its emoji (empty: taken back), of an action its command."""
    channel: str = "api"
    account: str = "local"
    conversation: str = "main"
    message_id: str = field(default_factory=new_id)
    sender: Sender = Sender("local")
    chat_type: ChatType = "direct"
    thread: str | None = None
    reply_to: str | None = None
    attachments: tuple[Attachment, ...] = ()
    mentions_us: bool = False
    forwarded: bool = False
    """Somebody else wrote it once; the sender only passed it on. The channel says so."""
    edited: bool = False
    """It is another text than the one that was first sent under its id."""
    kind: InboundKind = "message"
    target: str | None = None
    """The platform's id of the message that an edit, a deletion, a reaction or an action is about."""
    sent_at: datetime | None = None
    """Of an edit: when it was made."""
    reissue_of: str | None = field(default=None, name="again_for")  # as older rows have it
    """The inbound whose answer went stale before it could be sent; this one asks for a fresh answer."""
    from_extension: str | None = field(default=None, name="said_by")  # as older rows have it
    """The extension whose own words these are: they pass no stage, they go to the person."""
    saying: "Outbound | None" = None
    """Of an extension's own words: what goes with them."""
    once: Literal["here", "anywhere"] | None = None
    """Of an extension's own words: their id is a key, said once for ever in this conversation, or to this person."""
    limits: Limits | None = None
    wishes: TurnOptions | None = None
    """What the sender wants of this one answer. A channel sets it only for somebody who may choose."""
    language: Language | None = None
    """The language to answer in, where the text alone does not tell it; only the gateway sets it."""

    @property
    def reply_language(self) -> Language:
        return self.language or language_of(self.text, self.sender.language)

    @property
    def answer_to(self) -> str:
        """The message that an answer refers to: of a pressed button the one that has it, of an edit the edited one."""
        return self.target if self.kind in ("action", "edit") and self.target else self.message_id

    @property
    def unasked(self) -> bool:
        """Nobody wrote it: it is the gateway's own, and what comes of it reaches a person who did not ask."""
        return self.from_extension is not None or self.limits is not None or self.reissue_of is not None

    @property
    def is_internal(self) -> bool:
        """One of our own turns or an approval began it: its words are the gateway's or a model's, never a person's."""
        limits = self.limits
        return limits is not None and (limits.pool != "main" or limits.approval is not None)


class Embed(Struct, frozen=True, kw_only=True):
    """A card beside the text, on channels that show such; elsewhere it becomes text."""

    title: str
    text: str = ""
    url: str | None = None
    rendered: str | None = None
    """The text in the channel's markup; None: as it is."""


class OutboundFile(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file that goes out with a message."""

    blob: str
    """The SHA-256 of its bytes, in hexadecimal."""
    name: str
    mime: str = "application/octet-stream"
    alt: str = ""
    """What it shows, in words: for those who cannot see it, and where the channel carries no such file."""
    size: int = 0
    """Bytes; 0: nobody has said."""

    @property
    def kind(self) -> AttachmentKind:
        family = self.mime.partition("/")[0]
        return family if family in ("image", "audio", "video") else "file"


class NewFile(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file for an answer, with its bytes. They are kept under their hash before the answer is, and go out with it."""

    data: bytes
    name: str
    mime: str = "application/octet-stream"
    alt: str = ""


ButtonStyle = Literal["normal", "primary", "danger"]


class ActionButton(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something to do by a press: a label, and the command that is then as if the person had typed it."""

    label: str
    command: str
    style: ButtonStyle = "normal"


class Outbound(Struct, frozen=True, kw_only=True):
    """A message for a person to read. `perishable` answers are worthless once they are old.

    Its text is Markdown, but for a `notice`, which is shown to the letter. Part of an outbox item, it is frozen: what
    the channel shows is `formatted`, and `fallback` where the platform does not take that; one of several parts has its
    words alone as its text, without marks.
    """

    text: str
    kind: OutboundKind = "reply"
    reply_to: str | None = None
    thread: str | None = None
    embeds: tuple[Embed, ...] = ()
    ephemeral: bool = False
    perishable: bool = False
    attachments: tuple[OutboundFile, ...] = ()
    actions: tuple[ActionButton, ...] = ()
    facts: tuple[Fact, ...] = ()
    """Where its figures come from, for layers and checks; an outbox item has none."""
    rendered: str | None = None
    """The text in the channel's markup; None: as the fallback."""
    plain: str | None = None
    """The text without any markup, with the actions as lines; None: as the text."""

    @property
    def fallback(self) -> str:
        return self.text if self.plain is None else self.plain

    @property
    def formatted(self) -> str:
        return self.fallback if self.rendered is None else self.rendered


class ButtonLimits(Struct, frozen=True, kw_only=True):
    """Limits of the buttons under one message."""

    count: int
    label: int
    """Characters."""
    data: int
    """Bytes of the command that a button may carry."""


Markup = Literal["plain", "source", "markdown", "html", "inline_html", "mrkdwn"]
"""Languages for formatted text. `source`: as it was written, for a reader who renders it; `inline_html` has no blocks,
lists or line breaks of its own; `mrkdwn` is Slack's."""


class Capabilities(Struct, frozen=True, kw_only=True):
    """Capabilities of a channel. `idempotent`: a repeated token is recognised by the platform and shown once."""

    max_length: int = 4_000
    length_unit: LengthUnit = "characters"
    max_marks: int = 0
    """Tags or entities of one message; 0: no limit."""
    markup: Markup = "plain"
    reactions: bool = False
    typing: bool = False
    embeds: bool = False
    edits: bool = False
    deletes: bool = False
    ephemeral: bool = False
    buttons: ButtonLimits | None = None
    media: Mapping[AttachmentKind, int] = field(default_factory=dict[AttachmentKind, int])
    """The kinds of files that it carries, each with the most bytes."""
    threads: bool = False
    debounce_ms: int = 0
    """The pause after which several messages of a person are taken for a finished one."""
    idempotent: bool = False
    blocks: bool = False
    """An answer arrives block by block while it is being written; else all of it when it is complete."""
    authenticated: bool = True
    """Who wrote is the platform's word. Not so where the writer states it, as in the head of a letter."""


class Receipt(Struct, frozen=True):
    """A platform's confirmation that it has the item."""

    platform_id: str
