"""The commands undo and retry: the last question and its answer are taken out of the conversation, or asked again."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

from finclaw.builtins.basics import BasicCommand
from finclaw.gateway import UndoneTurn
from finclaw.kernel.extension import ExtensionApi
from finclaw.kernel.port import CommandReply, CommandScope
from finclaw.kernel.record import Accepted
from finclaw.text import Language, shorten

Undo = Callable[[Accepted, bool, bool], Awaitable[UndoneTurn]]
"""Of the command's own message, whether the owner asks, and whether the question is to be asked again."""

_LONGEST: Final = 60
_TEXTS: Final[dict[Language, dict[str, str]]] = {
    "en": {
        "undone": "Taken back: “{question}” and its answer are not part of the conversation any more. "
        "What I sent stays where you see it.",
        "tools": "What my tools did for it stays done.",
        "again": "Asking again: “{question}”",
        "nothing": "There is nothing to take back here.",
        "others": "The last question here was somebody else's; only they can take it back.",
        "shortened": "“{question}” has become part of a summary since, and cannot be taken back.",
    },
    "ko": {
        "undone": "되돌렸습니다: “{question}” 질문과 답변은 이제 대화에 포함되지 않습니다. "
        "이미 보낸 메시지는 화면에 그대로 남습니다.",
        "tools": "답변하면서 도구가 실행한 일은 취소되지 않습니다.",
        "again": "다시 답변합니다: “{question}”",
        "nothing": "되돌릴 것이 없습니다.",
        "others": "이 대화의 마지막 질문은 다른 분이 하신 것이라 그분만 되돌릴 수 있습니다.",
        "shortened": "“{question}” 질문은 이미 요약에 포함되어 되돌릴 수 없습니다.",
    },
}


class UndoCommands:
    name = "undo"

    def __init__(self, prefix: str, undo: Undo) -> None:
        self._prefix = prefix
        self._undo = undo

    def register(self, api: ExtensionApi) -> None:
        for command in (
            BasicCommand(
                name="undo",
                names={"ko": "되돌리기"},
                description="Takes the last question and its answer out of the conversation / 마지막 질문 되돌리기",
                usage=f"{self._prefix}undo",
                answer=partial(self._answer, again=False),
                when="in_lane",
                decides=True,
            ),
            BasicCommand(
                name="retry",
                names={"ko": "다시"},
                description="Asks your last question again, and forgets the first answer / 마지막 질문에 다시 답변",
                usage=f"{self._prefix}retry",
                answer=partial(self._answer, again=True),
                when="in_lane",
                decides=True,
            ),
        ):
            api.commands.register(command)

    async def _answer(self, args: Sequence[str], scope: CommandScope, *, again: bool) -> CommandReply:
        assert scope.accepted is not None  # the command stage sets it
        undone = await self._undo(scope.accepted, "owner" in scope.sender.roles, again)
        texts = _TEXTS[scope.language]
        question = shorten(" ".join(undone.question.split()), _LONGEST)
        if undone.problem:
            return CommandReply(texts[undone.problem].format(question=question), ephemeral=True)
        if again:
            return CommandReply(texts["again"].format(question=question))
        text = texts["undone"].format(question=question)
        if undone.used_tools:
            text = f"{text} {texts['tools']}"
        return CommandReply(text)
