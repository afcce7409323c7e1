"""The words of `/help`: the commands that a person may use, by category, or one of them in full."""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from finclaw.commands.declaration import describe_in, directive_of, name_in
from finclaw.kernel.port import Command, CommandArgument, CommandScope, LayerCommand, names_of
from finclaw.text import Language

_CATEGORIES: Final[dict[Language, dict[str, str]]] = {
    "en": {"general": "General", "finance": "Markets", "admin": "Administration", "debug": "Diagnostics"},
    "ko": {"general": "일반", "finance": "시장", "admin": "관리", "debug": "진단"},
}
_WORDS: Final[dict[Language, dict[str, str]]] = {
    "en": {
        "more": "{0} NAME explains one of them.",
        "none": "There is no {0} here.",
        "similar": "There is no {0} here. Did you mean {1}?",
        "optional": "optional",
        "aliases": "also: {0}",
        "roles": "for: {0}",
        "inline": "In front of a message it holds for that answer; alone it holds for the conversation.",
    },
    "ko": {
        "more": "{0} 이름 – 그 명령을 자세히 설명합니다.",
        "none": "{0} 명령은 여기에 없습니다.",
        "similar": "{0} 명령은 여기에 없습니다. 혹시 {1} 명령인가요?",
        "optional": "선택",
        "aliases": "다른 이름: {0}",
        "roles": "필요한 역할: {0}",
        "inline": "메시지 맨 앞에 쓰면 그 답변에만, 혼자 쓰면 이 대화 전체에 적용됩니다.",
    },
}


def help_text(
    prefix: str,
    commands: Sequence[Command],
    layer_commands: Mapping[str, LayerCommand],
    args: Sequence[str],
    scope: CommandScope,
) -> str:
    """What `/help` answers. Nobody is told of what they may not use."""
    language, roles = scope.language, set(scope.sender.roles)
    own = [each for each in commands if not each.roles or roles.intersection(each.roles)]
    layers = {name: it for name, it in layer_commands.items() if not it.roles or roles.intersection(it.roles)}
    if not args:
        return "\n".join(_list_commands(prefix, own, layers, language))
    wanted = args[0].removeprefix(prefix).casefold()
    found = next((each for each in own if wanted in map(str.casefold, names_of(each))), None)
    if found is not None:
        return "\n".join(_explain(found, language))
    if wanted in layers:
        return f"{prefix}{wanted}\n{describe_in(language, layers[wanted].about)}"
    return _find_none(prefix, wanted, [name for each in own for name in names_of(each)], language)


def _list_commands(
    prefix: str, commands: Sequence[Command], layers: Mapping[str, LayerCommand], language: Language
) -> Iterator[str]:
    by_category: dict[str, list[Command]] = {category: [] for category in _CATEGORIES[language]}
    for each in commands:
        by_category[each.category].append(each)
    filled = {category: listed for category, listed in by_category.items() if listed}
    for category, listed in filled.items():
        if len(filled) > 1:
            yield f"{_CATEGORIES[language][category]}:"
        for each in listed:
            yield _line(prefix, name_in(language, each), describe_in(language, each.description))
        if category == "general":
            for name, it in layers.items():
                yield _line(prefix, name, describe_in(language, it.about))
    yield _WORDS[language]["more"].format(f"{prefix}help")


def _line(prefix: str, name: str, about: str) -> str:
    return f"{prefix}{name} – {about}".removesuffix(" – ")


def _explain(command: Command, language: Language) -> Iterator[str]:
    words = _WORDS[language]
    arguments: tuple[CommandArgument, ...] = getattr(command, "arguments", ())
    yield command.usage
    yield describe_in(language, command.description)
    for each in arguments:
        name = each.name if each.required else f"{each.name} ({words['optional']})"
        yield f"  {name} – {describe_in(language, each.about)}".removesuffix(" – ")
    if directive_of(command) is not None:
        yield words["inline"]
    if also := [name for name in names_of(command) if name != command.name]:
        yield words["aliases"].format(", ".join(also))
    if command.roles:
        yield words["roles"].format(", ".join(command.roles))


def _find_none(prefix: str, wanted: str, known: Sequence[str], language: Language) -> str:
    near = difflib.get_close_matches(wanted, known, n=1, cutoff=0.7)
    shown = f"{prefix}{wanted[:50]}"
    return _WORDS[language]["similar" if near else "none"].format(shown, f"{prefix}{near[0]}" if near else "")
