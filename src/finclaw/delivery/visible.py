"""The last filter: everything that a person will see passes it, after every layer.

Control tokens are taken out of what the model says, and secrets: a chat is read by more than one, and kept for long.
So are approval ids and the head of a card, which only the gateway may show.
"""

from hashlib import sha256

from msgspec import Struct
from msgspec.structs import replace

from finclaw.approvals.forgery import without_forged_consent
from finclaw.delivery.control import ExtractedTokens, extract_control_tokens, is_silent
from finclaw.delivery.format import (
    FormatOptions,
    FormattedPart,
    format_embeds,
    format_message,
    get_format_options,
    write_embed,
)
from finclaw.delivery.limits import has_buttons_for, text_length
from finclaw.kernel.envelope import ActionButton, Capabilities, Embed, NewFile, Outbound, OutboundFile
from finclaw.redaction.redact import redact_for_display
from finclaw.tools.control_tokens import ControlToken


class Visible(Struct, frozen=True):
    """An answer as a person will get it, part by part, and the control tokens that the model wrote in it."""

    parts: tuple[Outbound, ...]
    text: str
    tokens: tuple[ControlToken, ...] = ()
    files: tuple[NewFile, ...] = ()
    """Files among the attachments of the parts that are not on disk yet, and must be before the parts are."""


def make_visible(
    outbound: Outbound,
    capabilities: Capabilities,
    *,
    begun: bool = False,
    is_card: bool = False,
    options: FormatOptions | None = None,
) -> Visible:
    """Only the model's words may carry control tokens; the gateway's own notices have none to give.

    Nor are secrets hidden in those: whoever approves an action sees it to the letter. `begun`: the words before these
    were sent already. `is_card`: the gateway asks for an approval, and only then may a button hold one. `options`: how
    it is formatted; None: as the channel alone needs it.
    """
    if outbound.kind != "notice":
        outbound = _clean_outbound(outbound)
    is_notice = outbound.kind == "notice"
    heard = ExtractedTokens(outbound.text) if is_notice else extract_control_tokens(outbound.text, begun=begun)
    text, tokens = heard.clean_content, heard.tokens
    if is_silent(tokens):
        return Visible((), text, tokens)
    options = get_format_options(capabilities) if options is None else options
    if outbound.embeds:
        cards, others = format_embeds(outbound.embeds, options, is_literal=is_notice)
        text = "\n\n".join([text, *map(write_embed, others)])
        outbound = replace(outbound, embeds=tuple(cards))
    if outbound.attachments or outbound.actions:
        outbound = (_with_decisions if is_card else _with_lines)(replace(outbound, text=text), capabilities)
        text = outbound.text
    lines = [] if is_card or options.markup == "source" else _action_lines(outbound.actions, "{}")
    parts, files = _freeze_parts(replace(outbound, text=text), options, "\n".join(lines))
    return Visible(parts, text.strip(), tokens, files)


# ── files and buttons, where the channel has none ───────────────────────────────────────────────────────────────


def _with_lines(outbound: Outbound, capabilities: Capabilities) -> Outbound:
    """What the channel cannot show becomes lines of the text. No button may hold an approval: that is for cards."""
    actions = tuple(each for each in outbound.actions if clean_words(each.command) == each.command)
    carried = tuple(each for each in outbound.attachments if each.size <= capabilities.media.get(each.kind, -1))
    lines = [
        f"📎 {each.name}{': ' if each.alt else ''}{each.alt}" for each in outbound.attachments if each not in carried
    ]
    if not has_buttons_for(capabilities, actions):
        lines += _action_lines(actions, "{}" if outbound.kind == "notice" else "`{}`")
        actions = ()
    text = "\n\n".join(part for part in (outbound.text.rstrip(), "\n".join(lines)) if part)
    return replace(outbound, text=text, attachments=carried, actions=actions)


def _with_decisions(card: Outbound, capabilities: Capabilities) -> Outbound:
    """The buttons of a card where the channel has them, and knows who presses one. Its text has the commands already.

    Files of the same turn are told of as in any message.
    """
    buttons = card.actions if capabilities.authenticated and has_buttons_for(capabilities, card.actions) else ()
    return replace(_with_lines(replace(card, actions=()), capabilities), actions=buttons)


def _action_lines(actions: tuple[ActionButton, ...], command: str) -> list[str]:
    return [f"{place}. {each.label}: {command.format(each.command)}" for place, each in enumerate(actions, start=1)]


# ── the form in which it is kept and sent ───────────────────────────────────────────────────────────────────────


def _freeze_parts(
    outbound: Outbound, options: FormatOptions, lines: str
) -> tuple[tuple[Outbound, ...], tuple[NewFile, ...]]:
    """The parts, and the files that were made of some blocks. Only the first part answers the message, a reply mark on
    each would shout; what is beside the text stands below the last. `lines`: the actions as they are typed.
    """
    formatted = format_message(outbound.text, options, is_literal=outbound.kind == "notice")
    if lines and formatted.parts and not _has_room(formatted.parts[-1], lines, options):
        narrow = replace(options, max_length=options.max_length - text_length(f"\n\n{lines}", options.length_unit))
        if 2 * narrow.max_length >= options.max_length:
            formatted = format_message(outbound.text, narrow, is_literal=outbound.kind == "notice")
        else:
            lines = ""  # the buttons say it
    frozen = [_freeze_part(outbound, part, lines, is_whole=not formatted.was_split) for part in formatted.parts]
    if not frozen and (outbound.embeds or outbound.attachments or outbound.actions):
        frozen = [replace(outbound, text="", plain=lines or None, facts=())]
    files = tuple(
        OutboundFile(
            blob=sha256(each.data).hexdigest(), name=each.name, mime=each.mime, alt=each.alt, size=len(each.data)
        )
        for each in formatted.files
    )
    if frozen and files:
        frozen[-1] = replace(frozen[-1], attachments=(*frozen[-1].attachments, *files))
    return tuple(frozen), formatted.files


def _freeze_part(outbound: Outbound, part: FormattedPart, lines: str, *, is_whole: bool) -> Outbound:
    """A reply in one part keeps its Markdown; of several each has its words alone."""
    text = outbound.text.strip() if is_whole else part.plain
    plain = f"{part.plain}\n\n{lines}" if lines and part.is_last else part.plain
    return replace(
        outbound,
        text=text,
        reply_to=outbound.reply_to if part.index == 0 else None,
        embeds=outbound.embeds if part.is_last else (),
        attachments=outbound.attachments if part.is_last else (),
        actions=outbound.actions if part.is_last else (),
        facts=(),
        rendered=None if part.content == plain else part.content,
        plain=None if plain == text else plain,
    )


def _has_room(part: FormattedPart, lines: str, options: FormatOptions) -> bool:
    return text_length(f"{part.plain}\n\n{lines}", options.length_unit) <= options.max_length


def _clean_outbound(outbound: Outbound) -> Outbound:
    text = clean_words(outbound.text)
    if outbound.attachments or outbound.actions:
        outbound = replace(
            outbound,
            attachments=tuple(
                replace(each, name=clean_words(each.name), alt=clean_words(each.alt)) for each in outbound.attachments
            ),
            actions=tuple(replace(each, label=clean_words(each.label)) for each in outbound.actions),
        )
    if text is outbound.text and not outbound.embeds:
        return outbound
    embeds = tuple(
        Embed(title=clean_words(each.title), text=clean_words(each.text), url=each.url) for each in outbound.embeds
    )
    return replace(outbound, text=text, embeds=embeds)


def clean_words(text: str) -> str:
    """A model's words as a person may see them. The very same text where nothing has to go."""
    return without_forged_consent(redact_for_display(text))
