"""`/memory`: what is remembered of the person who asks, and the way to be forgotten without asking a model."""

from collections.abc import Sequence
from typing import Final

from finclaw.builtins.basics import BasicCommand
from finclaw.builtins.memory.notes import Note, NoteStore
from finclaw.builtins.memory.owner import is_private
from finclaw.kernel.port import CommandReply, CommandScope
from finclaw.taint.origin import format_origin

_PAGE: Final = 20
_SHOWN: Final = 160
"""Characters of a note in the list."""
USAGE: Final = "/memory [list [page] | forget ID | clear]"


def memory_command(notes: NoteStore) -> BasicCommand:
    async def answer(args: Sequence[str], scope: CommandScope) -> CommandReply:
        return CommandReply(await _answer(notes, args, scope), ephemeral=True)

    return BasicCommand(
        name="memory",
        names={"ko": "기억"},
        description="Shows or forgets what you asked me to remember / 저장된 메모 보기와 삭제",
        usage=USAGE,
        answer=answer,
    )


async def _answer(notes: NoteStore, args: Sequence[str], scope: CommandScope) -> str:
    owner = await notes.owner_of(scope.person)
    match [each.casefold() for each in args]:
        case [] | ["list"]:
            return await _list(notes, owner, scope, 1)
        case ["list", page] if _number(page):
            return await _list(notes, owner, scope, _number(page))
        case ["forget", id] if _number(id):
            gone = await notes.forget(owner, _number(id))
            return f"Forgotten. / 삭제했습니다. ({id})" if gone else f"There is no note {id}. / {id}번 메모가 없습니다."
        case ["clear"]:
            return f"Forgotten: {await notes.clear(owner)}. / 메모를 모두 삭제했습니다."
        case _:
            return USAGE


async def _list(notes: NoteStore, owner: str, scope: CommandScope, page: int) -> str:
    if not is_private(scope.inbound):
        return "Notes are shown in a direct chat only. / 메모는 1:1 대화에서만 볼 수 있습니다."
    shown, count = await notes.latest(owner, _PAGE, (page - 1) * _PAGE)
    if not count:
        return "I remember nothing about you. / 저장된 메모가 없습니다."
    if not shown:
        return f"There is no page {page}. / {page}쪽이 없습니다."
    more = [f"/memory list {page + 1} …"] if page * _PAGE < count else []
    return "\n".join([f"Notes / 메모: {count}", *map(_line, shown), *more])


def _line(note: Note) -> str:
    text = note.text if len(note.text) <= _SHOWN else note.text[: _SHOWN - 1] + "…"
    whose = f"; {format_origin(note.sources[0])}" if note.sources else ""
    return f"{note.number}. {text} ({note.saved_at:%Y-%m-%d}{whose})"


def _number(text: str) -> int:
    """0 for what is none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else 0
