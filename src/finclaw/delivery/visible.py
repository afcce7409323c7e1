"""The visibility gate: everything that a person will see passes it, after every layer.

Control tokens are taken out of what the model says, and secrets: a chat is read by more than one, and kept for long.
So are approval ids and the head of a card, which only the gateway may show. Then the checks of extensions have the last
word. What a check finds is replaced, or left out with its sentence; the rest of the answer stays. A check that fails
keeps everything back: nobody knows what it would have found.
"""

import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from typing import Final, TypeVar, cast

from msgspec import Struct
from msgspec.structs import astuple, replace

from finclaw.approvals.card import without_forged_consent
from finclaw.delivery.format import (
    FormatOptions,
    FormattedPart,
    format_embeds,
    format_message,
    get_format_options,
    has_buttons_for,
    write_embed,
)
from finclaw.kernel.envelope import ActionButton, Capabilities, Embed, NewFile, Outbound, OutboundFile
from finclaw.kernel.scope import Draft, DraftFinding, VisibilityCheck
from finclaw.redaction import hide_known_secrets
from finclaw.redaction.redact import redact_for_display
from finclaw.text import Language, text_length
from finclaw.tools.control_tokens import ControlToken, extract_control_tokens, is_silent, with_last_line

log = logging.getLogger(__name__)

T = TypeVar("T", bound=Struct)

SENTENCE_END: Final = re.compile(r"""[.!?。…]["')\]]{0,8}\s|\n""")
LONGEST_REASON: Final = 300
_MOST_ROUNDS: Final = 3
"""A replacement is checked too, and may be found wanting; then its sentence goes."""
_WITHHELD: Final[dict[Language, str]] = {"en": "This answer was withheld", "ko": "이 답변은 표시하지 않았습니다"}

_LEFT_OUT: Final[dict[Language, str]] = {
    "en": "(A part of this answer was left out{why})",
    "ko": "(이 답변의 일부를 표시하지 않았습니다{why})",
}


class Check(Struct, frozen=True):
    extension: str
    look: VisibilityCheck


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
    is_notice = outbound.kind == "notice"
    text = outbound.text
    tokens: tuple[ControlToken, ...] = ()
    if not is_notice:
        outbound = _clean_outbound(outbound)
        extracted = extract_control_tokens(outbound.text, begun=begun)
        text = extracted.clean_content
        tokens = extracted.tokens
    if is_silent(tokens):
        return Visible((), text, tokens)
    options = options or get_format_options(capabilities)
    if outbound.embeds:
        cards, others = format_embeds(outbound.embeds, options, is_literal=is_notice)
        text = "\n\n".join([text, *map(write_embed, others)])
        outbound = replace(outbound, embeds=tuple(cards))
    if outbound.attachments or outbound.actions:
        outbound = (_with_decisions if is_card else _with_lines)(replace(outbound, text=text), capabilities)
        text = outbound.text
    lines = ""
    if not is_card and options.markup != "source":
        lines = _action_lines(outbound.actions, "{}")
    parts, files = _freeze_parts(replace(outbound, text=text), options, lines)
    return Visible(parts, text.strip(), tokens, files)


def apply_visibility_checks(
    outbound: Outbound,
    capabilities: Capabilities,
    checks: Sequence[Check],
    about: Draft,
    *,
    begun: bool = False,
    is_card: bool = False,
    options: FormatOptions | None = None,
) -> Visible:
    """Return what a person gets: the words without what a check found in them, or a line that says why there are none.

    `about` is a draft in all but its text; `begun`, `is_card` and `options` are as for `make_visible`.
    """
    visible = make_visible(outbound, capabilities, begun=begun, is_card=is_card, options=options)
    if not (visible.parts and checks):
        return visible
    reasons = list[str]()
    try:
        parts = visible.parts
        cards = _keep(checks, (card for part in parts for card in part.embeds), about, reasons)
        made = {file.name for file in visible.files}  # made of the text, which is checked
        attached = (file for part in parts for file in part.attachments if file.name not in made)
        files = _keep(checks, attached, about, reasons)
        actions = _keep(checks, (action for part in parts for action in part.actions), about, reasons)
        text = _correct(checks, replace(about, text=visible.text), reasons)
        if text == visible.text and not reasons:
            return visible
        if not reasons or any(map(str.isalnum, text)) or cards or files:
            text = _tell_left_out(checks, text, about, reasons)
            corrected = replace(outbound, text=text, embeds=cards, attachments=files, actions=actions)
            shown = make_visible(corrected, capabilities, begun=begun, is_card=is_card, options=options)
            return replace(shown, tokens=visible.tokens)
        why = reasons[0]
    except _Withheld as withheld:
        why = str(withheld)
    log.warning("a text was withheld: %s", why)
    told = make_visible(_withheld_notice(outbound, about, f": {why}"), capabilities)
    if find_objection(checks, replace(about, text=told.text)) is None:
        return told
    return make_visible(_withheld_notice(outbound, about, "."), capabilities)  # even the reason must not be seen


def find_objection(checks: Sequence[Check], draft: Draft) -> str | None:
    """Return the first reason against this draft; None when every check lets it pass."""
    try:
        for found in _find_all(checks, draft):
            return found.reason
    except _Withheld as withheld:
        return str(withheld)
    return None


def _with_lines(outbound: Outbound, capabilities: Capabilities) -> Outbound:
    """What the channel cannot show becomes lines of the text. No button may hold an approval: that is for cards."""
    actions = tuple(action for action in outbound.actions if clean_words(action.command) == action.command)
    carried = tuple(file for file in outbound.attachments if file.size <= capabilities.media.get(file.kind, -1))
    left = [file for file in outbound.attachments if file not in carried]
    lines = [f"📎 {file.name}: {file.alt}" if file.alt else f"📎 {file.name}" for file in left]
    if not has_buttons_for(capabilities, actions):
        lines.append(_action_lines(actions, "{}" if outbound.kind == "notice" else "`{}`"))
        actions = ()
    text = "\n\n".join(filter(None, (outbound.text.rstrip(), "\n".join(filter(None, lines)))))
    return replace(outbound, text=text, attachments=carried, actions=actions)


def _with_decisions(card: Outbound, capabilities: Capabilities) -> Outbound:
    """Keep the buttons of a card where the channel has them, and knows who presses one. Its text has the commands."""
    described = _with_lines(replace(card, actions=()), capabilities)
    if not capabilities.authenticated or not has_buttons_for(capabilities, card.actions):
        return described
    return replace(described, actions=card.actions)


def _action_lines(actions: tuple[ActionButton, ...], form: str) -> str:
    lines = [f"{place}. {action.label}: {form.format(action.command)}" for place, action in enumerate(actions, start=1)]
    return "\n".join(lines)


def _freeze_parts(
    outbound: Outbound, options: FormatOptions, lines: str
) -> tuple[tuple[Outbound, ...], tuple[NewFile, ...]]:
    """Return the parts, and the files that were made of some blocks. `lines`: the actions as they are typed.

    Only the first part answers the message; what is beside the text stands below the last.
    """
    formatted = format_message(outbound.text, options, is_literal=outbound.kind == "notice")
    unit = options.length_unit
    if lines and formatted.parts and text_length(f"{formatted.parts[-1].plain}\n\n{lines}", unit) > options.max_length:
        narrow = replace(options, max_length=options.max_length - text_length(f"\n\n{lines}", unit))
        if 2 * narrow.max_length >= options.max_length:
            formatted = format_message(outbound.text, narrow, is_literal=outbound.kind == "notice")
        else:
            lines = ""  # the buttons say it
    frozen = [_freeze_part(outbound, part, lines, is_whole=not formatted.was_split) for part in formatted.parts]
    if not frozen and (outbound.embeds or outbound.attachments or outbound.actions):
        frozen = [replace(outbound, text="", plain=lines or None, facts=())]
    if frozen and formatted.files:
        made = map(_freeze_file, formatted.files)
        frozen[-1] = replace(frozen[-1], attachments=(*frozen[-1].attachments, *made))
    return tuple(frozen), formatted.files


def _freeze_part(outbound: Outbound, part: FormattedPart, lines: str, *, is_whole: bool) -> Outbound:
    """A reply in one part keeps its Markdown; of several each has its words alone."""
    text = outbound.text.strip() if is_whole else part.plain
    plain = part.plain
    if lines and part.is_last:
        plain = f"{plain}\n\n{lines}"
    frozen = replace(
        outbound,
        text=text,
        facts=(),
        rendered=None if part.content == plain else part.content,
        plain=None if plain == text else plain,
    )
    if part.index > 0:
        frozen = replace(frozen, reply_to=None)
    if not part.is_last:
        frozen = replace(frozen, embeds=(), attachments=(), actions=())
    return frozen


def _freeze_file(file: NewFile) -> OutboundFile:
    digest = sha256(file.data).hexdigest()
    return OutboundFile(blob=digest, name=file.name, mime=file.mime, alt=file.alt, size=len(file.data))


def _clean_outbound(outbound: Outbound) -> Outbound:
    text = clean_words(outbound.text)
    if text is outbound.text and not (outbound.embeds or outbound.attachments or outbound.actions):
        return outbound
    embeds = [
        Embed(title=clean_words(card.title), text=clean_words(card.text), url=card.url) for card in outbound.embeds
    ]
    attachments = [
        replace(file, name=clean_words(file.name), alt=clean_words(file.alt)) for file in outbound.attachments
    ]
    actions = [replace(action, label=clean_words(action.label)) for action in outbound.actions]
    return replace(outbound, text=text, embeds=tuple(embeds), attachments=tuple(attachments), actions=tuple(actions))


def clean_words(text: str) -> str:
    """Return a model's words as a person may see them; the same object where nothing has to go."""
    return without_forged_consent(redact_for_display(text))


class _Withheld(Exception):
    """Nothing of a text may be seen. Its words say why."""


def _find_all(checks: Sequence[Check], draft: Draft) -> Iterator[DraftFinding]:
    """Raises _Withheld when a check fails or says what is no finding in this draft."""
    for check in checks:
        try:
            found = cast("object", check.look(draft))
            findings = tuple(cast("Sequence[object]", found)) if found is not None else ()
        except Exception as error:  # a check is a stranger, and one that cannot look must not let anything through
            log.exception(
                "a visible check of extension %r failed; what it should have looked at is withheld", check.extension
            )
            raise _Withheld(f"a check of {check.extension} failed") from error
        for each in findings:
            if not (isinstance(each, DraftFinding) and 0 <= each.start < each.end <= len(draft.text)):
                text = "a visible check of extension %r found %r, which is no place in the text"
                log.error(text, check.extension, each)
                raise _Withheld(f"a check of {check.extension} failed")
            reason = " ".join(hide_known_secrets(each.reason).split())[:LONGEST_REASON]
            yield replace(each, reason=reason or f"a check of {check.extension} objects")


def _keep(checks: Sequence[Check], things: Iterable[T], about: Draft, reasons: list[str]) -> tuple[T, ...]:
    """Cards, files or buttons to which nobody objects. One goes as a whole: a part of it tells something else."""
    kept = list[T]()
    for thing in things:
        text = "\n".join(str(word) for word in astuple(thing) if word)
        why = find_objection(checks, replace(about, text=text))
        if why is None:
            kept.append(thing)
        else:
            reasons.append(why)
    return tuple(kept)


def _correct(checks: Sequence[Check], draft: Draft, reasons: list[str]) -> str:
    """Return the text without what was found, checked again. Adds why sentences were left out. Raises _Withheld."""
    rounds = 0
    while findings := tuple(_find_all(checks, draft)):
        if rounds == 2 * _MOST_ROUNDS:
            raise _Withheld(findings[0].reason)
        text, left_out = _without_findings(draft.text, findings, replacing=rounds < _MOST_ROUNDS)
        reasons += left_out
        draft = replace(draft, text=text)
        rounds += 1
    return draft.text


def _without_findings(text: str, findings: Sequence[DraftFinding], *, replacing: bool) -> tuple[str, Sequence[str]]:
    """Return the text with the replacements and without the sentences of other findings, and the reasons of those."""
    changed = list[DraftFinding]()
    removed = list[DraftFinding]()
    for finding in sorted(findings, key=lambda finding: (finding.start, finding.end)):
        overlaps = bool(changed) and finding.start < changed[-1].end
        if replacing and finding.replacement is not None and not overlaps:
            changed.append(finding)
        else:
            removed.append(finding)
    gone = [_widen_to_sentences(text, finding) for finding in removed]
    edits = [(start, end, "") for start, end in gone]
    for finding in changed:
        if not any(finding.start < end and start < finding.end for start, end in gone):
            edits.append((finding.start, finding.end, finding.replacement or ""))
    pieces = list[str]()
    at = 0
    for start, end, instead in sorted(edits):
        if start >= at:
            pieces += (text[at:start], instead)
        at = max(at, end)
    pieces.append(text[at:])
    return "".join(pieces).strip(), [finding.reason for finding in removed]


def _widen_to_sentences(text: str, finding: DraftFinding) -> tuple[int, int]:
    start = 0
    for end in SENTENCE_END.finditer(text):
        if end.end() > finding.start:
            break
        start = end.end()
    behind = SENTENCE_END.search(text, max(finding.end - 1, start))
    if behind is None:
        return start, len(text)
    return start, behind.end()


def _tell_left_out(checks: Sequence[Check], text: str, about: Draft, reasons: Sequence[str]) -> str:
    """The text with a last line that says that something is missing, and why if that may be seen."""
    if not reasons:
        return text
    log.warning("a part of a text was left out: %s", reasons[0])
    line = _LEFT_OUT[about.language]
    told = with_last_line(text, line.format(why=f": {reasons[0]}"))
    if find_objection(checks, replace(about, text=told)) is None:
        return told
    return with_last_line(text, line.format(why="."))


def _withheld_notice(outbound: Outbound, about: Draft, ending: str) -> Outbound:
    return Outbound(
        text=_WITHHELD[about.language] + ending,
        kind="notice",
        reply_to=outbound.reply_to,
        thread=outbound.thread,
        ephemeral=outbound.ephemeral,
    )
