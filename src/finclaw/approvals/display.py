"""Text of actions for people: safe to show, with times in the reader's zone, in full or as a summary.

Every shown value reads back as exactly the one that will be used.
"""

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import Any, Final, Literal, cast

from finclaw.gateway import Summary
from finclaw.kernel.approval import Approval
from finclaw.kernel.message import ToolStatus
from finclaw.kernel.person import reader_zone
from finclaw.redaction.redact import redact_for_display
from finclaw.text import Language, shorten
from finclaw.transcript.approval_ids import short_id

_KOREA: Final = timezone(timedelta(hours=9), "KST")
_NAMES: Final[dict[Language, dict[str, str]]] = {"en": {}, "ko": {"KST": "한국 시간"}}


def time_of_day(moment: datetime, language: Language) -> str:
    local = moment.astimezone(_zone(moment, language))
    name = local.tzname() or "UTC"
    return f"{local:%H:%M:%S} ({_NAMES[language].get(name, name)})"


def day_and_time(moment: datetime) -> str:
    return f"{moment.astimezone(_zone(moment, 'en')):%Y-%m-%d %H:%M:%S %Z}"


def day_of(moment: datetime) -> str:
    return f"{moment.astimezone(_zone(moment, 'en')):%Y-%m-%d}"


def _zone(moment: datetime, language: Language) -> tzinfo | None:
    """The reader's own zone, else this machine's (None). A machine left at UTC says less than the language."""
    if own := reader_zone():
        return own
    if os.environ.get("TZ") or moment.astimezone().utcoffset():
        return None
    return _KOREA if language == "ko" else UTC


_PLAIN: Final = (
    "["
    " -~"  # ASCII
    "¢-¥₩€°±"
    "À-ÖØ-öø-ÿ"  # Nestlé, Zürich
    "\u3041-\u3096\u30a1-\u30fa"  # kana
    "\u4e00-\u9fff"  # Hanja
    "\uac00-\ud7a3"  # Korean, syllable by syllable; in parts it only looks like it
    "\U0001f300-\U0001faff"  # pictures
    "]"
)
"""All else, letters of other scripts that pose as these among it, is shown by its number.

A string, which `re` compiles when it is first used: few commands show a value."""
_RADICALS: Final = frozenset(
    "丨丶丿乀乁乚乛亅亠亻冂冖冫凵勹匚匸卩厶囗夂夊宀巛廴廾彐彑彡彳忄扌曰氵爫犭疒礻糹纟罒艹衤訁讠钅阝飠饣丷刂儿"
)
"""Strokes and parts of Hanja: they stand in no name, and each looks like a sign, a kana or another Hanja."""
_LOOK_ALIKE: Final = dict(
    zip("ロトカニハエタチオヒヌメセミヘベペリ", "口卜力二八工夕千才匕又乂七三へべぺり", strict=True)
)
"""Katakana, each with the Hanja or Hiragana that is drawn alike."""
_AMBIGUOUS: Final = frozenset((*_LOOK_ALIKE, *_LOOK_ALIKE.values()))
_WORD: Final = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_SHORT: Final = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def quote_text(value: str) -> str:
    """In quotes, as JSON has it."""
    if _AMBIGUOUS.isdisjoint(value):
        return f'"{"".join(map(_show_character, value))}"'
    behind = reversed(_list_neighbours(value[::-1]))
    return f'"{"".join(map(_show_look_alike, value, _list_neighbours(value), behind))}"'


def _list_neighbours(value: str) -> list[str]:
    """For each character the last one before it that looks like no other; empty where there is none."""
    last = ""
    found: list[str] = []
    for character in value:
        found.append(last)
        if character not in _AMBIGUOUS:
            last = character
    return found


def _show_look_alike(character: str, before: str, behind: str) -> str:
    """Escape one of two look-alikes: katakana is shown as it is beside katakana, its double everywhere else."""
    katakana = any("\u30a1" <= each <= "\u30fa" for each in (before, behind))
    if character in _AMBIGUOUS and (character in _LOOK_ALIKE) != katakana:
        return _escape_character(character)
    return _show_character(character)


def _show_character(character: str) -> str:
    if character in _SHORT:
        return _SHORT[character]
    # A picture that is yet to be drawn is a blank box, and not printable.
    if re.match(_PLAIN, character) and character.isprintable() and character not in _RADICALS:
        return character
    return _escape_character(character)


def _escape_character(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))


def format_number(value: int | float) -> str:
    """With every digit, in groups of three. A whole number and a fraction that is whole stay apart."""
    if isinstance(value, int):
        return f"{value:,}"
    digits = f"{Decimal(repr(value)):,f}"
    return digits if "." in digits else f"{digits}.0"


def format_lines(value: Any, path: str = "") -> Iterator[str]:
    """One line per single value, with the way to it."""
    if isinstance(value, Mapping) and value:
        for key, each in cast("Mapping[str, Any]", value).items():
            yield from format_lines(each, _join_path(path, key))
    elif isinstance(value, list | tuple) and value:
        for place, each in enumerate(cast("list[Any]", value)):
            yield from format_lines(each, f"{path}[{place}]")
    else:
        yield f"{path} = {_format_value(value)}"


def _join_path(path: str, key: str) -> str:
    if not _WORD.fullmatch(key):
        return f"{path}[{quote_text(key)}]"
    return f"{path}.{key}" if path else key


def _format_value(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int | float):
        return format_number(value)
    if isinstance(value, Mapping):
        return "{}"
    if isinstance(value, list | tuple):
        return "[]"
    return quote_text(str(value))


Ending = Literal["done", "not done", "failed", "unknown"]

_ENDINGS: Final[dict[Language, dict[Ending, str]]] = {
    "en": {
        "done": "Done as approved: {action}",
        "not done": "Approved, but not done: {action}",
        "failed": "Approved, but it failed: {action}",
        "unknown": "Approved and begun, but nobody knows how it ended: {action}",
    },
    "ko": {
        "done": "승인한 대로 실행했습니다: {action}",
        "not done": "승인했지만 실행하지 않았습니다: {action}",
        "failed": "승인했지만 실행에 실패했습니다: {action}",
        "unknown": "승인하여 시작했지만 어떻게 끝났는지 알 수 없습니다: {action}",
    },
}
_BY_STATUS: Final[dict[ToolStatus, Ending]] = {
    "ok": "done",
    "unknown": "unknown",
    "denied": "not done",
    "invalid": "not done",
    "skipped": "not done",
}
LONGEST: Final = 160  # characters of an action in a list
_LONGEST_ENDING: Final = 600


def action_line(approval: Approval, longest: int = LONGEST) -> str:
    """`broker__order: symbol = "AAPL"; quantity = 10`, cut to its length."""
    line = tool_name(approval)
    if shown := redact_for_display("; ".join(_parts(approval))):  # before the cut: no half of a secret is left
        line = f"{line}: {shown}"
    return shorten(line, longest)


def action_lines(approval: Approval) -> Iterator[str]:
    """Everything that the card showed, without secrets: more people read the history than the card."""
    yield tool_name(approval)
    yield from (f"• {redact_for_display(each)}" for each in _parts(approval))


def ending_line(approval: Approval, status: ToolStatus) -> str:
    """What came of it, by the gateway: a model that tells of it may tell it wrong. Empty while it waits again."""
    if status == "awaiting":
        return ""
    words = _ENDINGS[approval.language][_BY_STATUS.get(status, "failed")]
    return words.format(action=action_line(approval, _LONGEST_ENDING))


def tool_name(approval: Approval) -> str:
    return quote_text(approval.tool)[1:-1]


def short_ids(approvals: Collection[Approval]) -> dict[str, str]:
    """The shortest beginning of each id that no other of them has."""
    ids = [each.id for each in approvals]
    shown: dict[str, str] = {}
    for each in ids:
        length = len(short_id(each))
        while length < len(each) and sum(other.startswith(each[:length]) for other in ids) > 1:
            length += 1
        shown[each] = each[:length]
    return shown


def summaries(approvals: Sequence[Approval]) -> Sequence[Summary]:
    ids = short_ids(approvals)
    return [(ids[each.id], action_line(each)) for each in approvals]


def _parts(approval: Approval) -> list[str]:
    """In the order of the card: what is kept has lost its own."""
    known = [line for values in (approval.args, approval.quote) if values for line in format_lines(values)]
    places = {line: approval.card.find(f"• {line}\n") for line in known}
    return sorted(known, key=lambda line: places[line])
