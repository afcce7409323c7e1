"""Visibility checks of extensions: the last word on what a person sees.

What a check finds is replaced, or left out with its sentence; the rest of the answer stays. A check that fails keeps
everything back: nobody knows what it would have found.
"""

import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeVar, cast

from msgspec import Struct
from msgspec.structs import astuple, replace

from finclaw.delivery.format import FormatOptions
from finclaw.delivery.visible import Visible, make_visible
from finclaw.kernel.envelope import Capabilities, Outbound
from finclaw.kernel.visibility import Draft, DraftFinding, VisibilityCheck
from finclaw.redaction import hide_known_secrets
from finclaw.text import Language
from finclaw.tools.last_line import with_last_line

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
    """A visibility check of an extension."""

    extension: str
    look: VisibilityCheck


class _Withheld(Exception):
    """Nothing of a text may be seen. Its words say why."""


def find_objection(checks: Sequence[Check], draft: Draft) -> str | None:
    """The first reason against this draft; None when every check lets it pass."""
    try:
        found = next(_find_all(checks, draft), None)
    except _Withheld as withheld:
        return str(withheld)
    return None if found is None else found.reason


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
    """What a person gets: the words without what a check found in them, or a line that says why there are none.

    `about` is a draft in all but its text; `begun`, `is_card` and `options` are as for `make_visible`.
    """
    visible = make_visible(outbound, capabilities, begun=begun, is_card=is_card, options=options)
    if not (visible.parts and checks):
        return visible
    reasons = list[str]()
    try:
        parts = visible.parts
        cards = _keep(checks, (each for part in parts for each in part.embeds), about, reasons)
        made = {each.name for each in visible.files}  # made of the text, which is checked
        attached = (each for part in parts for each in part.attachments if each.name not in made)
        files = _keep(checks, attached, about, reasons)
        actions = _keep(checks, (each for part in parts for each in part.actions), about, reasons)
        text = _correct(checks, replace(about, text=visible.text), reasons)
        if text == visible.text and not reasons:
            return visible
        if not reasons or _has_words(text) or cards or files:
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


# ── what the checks find ────────────────────────────────────────────────────────────────────────────────────


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
                log.error(
                    "a visible check of extension %r found %r, which is no place in the text", check.extension, each
                )
                raise _Withheld(f"a check of {check.extension} failed")
            reason = (
                " ".join(hide_known_secrets(each.reason).split())[:LONGEST_REASON]
                or f"a check of {check.extension} objects"
            )
            yield replace(each, reason=reason)


def _keep(checks: Sequence[Check], things: Iterable[T], about: Draft, reasons: list[str]) -> tuple[T, ...]:
    """Cards, files or buttons to which nobody objects. One goes as a whole: a part of it tells something else."""
    kept = list[T]()
    for each in things:
        why = find_objection(checks, replace(about, text="\n".join(str(word) for word in astuple(each) if word)))
        if why is None:
            kept.append(each)
        else:
            reasons.append(why)
    return tuple(kept)


# ── the corrected text ──────────────────────────────────────────────────────────────────────────────────────


def _correct(checks: Sequence[Check], draft: Draft, reasons: list[str]) -> str:
    """The text without what was found, checked again. Adds why sentences were left out. Raises _Withheld."""
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
    """The text with the replacements in it and without the other findings' sentences, and the reasons of those."""
    edits = sorted(findings, key=lambda each: (each.start, each.end))
    changed, removed = list[DraftFinding](), list[DraftFinding]()
    for each in edits:
        overlaps = bool(changed) and each.start < changed[-1].end
        (changed if replacing and each.replacement is not None and not overlaps else removed).append(each)
    gone = [_widen_to_sentences(text, each) for each in removed]
    changed = [each for each in changed if not any(each.start < end and start < each.end for start, end in gone)]
    pieces, at = list[str](), 0
    for start, end, instead in sorted(
        [*((*span, "") for span in gone), *((each.start, each.end, each.replacement or "") for each in changed)]
    ):
        if start >= at:
            pieces += (text[at:start], instead)
        at = max(at, end)
    pieces.append(text[at:])
    return "".join(pieces).strip(), [each.reason for each in removed]


def _widen_to_sentences(text: str, finding: DraftFinding) -> tuple[int, int]:
    start = 0
    for end in SENTENCE_END.finditer(text):
        if end.end() > finding.start:
            break
        start = end.end()
    behind = SENTENCE_END.search(text, max(finding.end - 1, start))
    return start, len(text) if behind is None else behind.end()


def _has_words(text: str) -> bool:
    return any(map(str.isalnum, text))


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
