"""The last filter: everything that a person will see passes it, after every layer.

Control tokens are taken out of what the model says, and secrets: a chat is read by more than one, and kept for long.
So are approval ids and the head of a card, which only the gateway may show.
"""

from msgspec import Struct
from msgspec.structs import replace

from finclaw.delivery.control import ExtractedTokens, extract_control_tokens, is_silent
from finclaw.delivery.limits import has_buttons_for, has_room_for
from finclaw.delivery.markup import escape, render
from finclaw.delivery.split import RESENT_MARK, split_outbound
from finclaw.kernel.envelope import ActionButton, Capabilities, Embed, Outbound
from finclaw.tools.approval.forgery import without_forged_consent
from finclaw.tools.guard.control_tokens import ControlToken
from finclaw.tools.guard.redact import redact_for_display


class Visible(Struct, frozen=True):
    """An answer as a person will get it, part by part, and the control tokens that the model wrote in it."""

    parts: tuple[Outbound, ...]
    text: str
    tokens: tuple[ControlToken, ...] = ()


def make_visible(
    outbound: Outbound, capabilities: Capabilities, *, begun: bool = False, is_card: bool = False
) -> Visible:
    """Only the model's words may carry control tokens; the gateway's own notices have none to give.

    Nor are secrets hidden in those: whoever approves an action sees it to the letter. `begun`: the words before these
    were sent already. `is_card`: the gateway asks for an approval, and only then may a button hold one.
    """
    if outbound.kind != "notice":
        outbound = _clean_outbound(outbound)
    is_notice = outbound.kind == "notice"
    heard = ExtractedTokens(outbound.text) if is_notice else extract_control_tokens(outbound.text, begun=begun)
    text, tokens = heard.clean_content, heard.tokens
    if is_silent(tokens):
        return Visible((), text, tokens)
    if outbound.embeds and not capabilities.embeds:
        text = "\n\n".join([text, *map(_as_text, outbound.embeds)])
        outbound = replace(outbound, embeds=())
    if outbound.attachments or outbound.actions:
        outbound = (_with_decisions if is_card else _with_lines)(replace(outbound, text=text), capabilities)
        text = outbound.text
    parts = _freeze_parts(replace(outbound, text=text), capabilities, is_card=is_card)
    return Visible(parts, text.strip(), tokens)


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


def _freeze_parts(outbound: Outbound, capabilities: Capabilities, *, is_card: bool) -> tuple[Outbound, ...]:
    """Split, and rendered; where markup makes a part too long for the channel, in smaller parts."""
    parts: tuple[Outbound, ...] = ()
    for share in (1, 2, 4, 8):
        split = split_outbound(outbound, capabilities, share)
        parts = tuple(_freeze(part, capabilities, is_card=is_card) for part in split)
        if all(_fits(part, capabilities) for part in parts):
            break
    return parts


def _freeze(part: Outbound, capabilities: Capabilities, *, is_card: bool) -> Outbound:
    markup = capabilities.markup
    if markup == "source":
        return part
    literal = part.kind == "notice"
    plain = part.text if literal else render(part.text, "plain")
    if part.actions and not is_card:
        plain = "\n\n".join((plain, "\n".join(_action_lines(part.actions, "{}")))).strip()
    rendered = (escape if literal else render)(part.text, markup)
    if rendered == plain == part.text:  # as nearly all are
        return part
    return replace(part, rendered=None if rendered == plain else rendered, plain=None if plain == part.text else plain)


def _fits(part: Outbound, capabilities: Capabilities) -> bool:
    if part.rendered is None and part.plain is None:
        return True
    # Where tags of HTML stand in the text they are not counted: what is read is.
    shown = part.fallback if capabilities.markup == "inline_html" else part.formatted
    return has_room_for(capabilities, RESENT_MARK + shown) and has_room_for(capabilities, RESENT_MARK + part.fallback)


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


def _as_text(embed: Embed) -> str:
    return "\n".join(part for part in (embed.title, embed.text, embed.url) if part)
