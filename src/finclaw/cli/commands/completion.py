"""`finclaw completion`: a script for your shell, made from the commands themselves, so that it cannot forget one.

The script holds all the words; pressing Tab starts no Python.
"""

import re
from argparse import Action, ArgumentParser, Namespace
from collections.abc import Iterator
from typing import Final

from finclaw.cli.arguments import add_state_options
from finclaw.cli.parser import Parser, build_parser
from finclaw.providers.catalog import load_listed

_HOW: Final = {
    "bash": 'add this line to ~/.bashrc:  eval "$(finclaw completion bash)"',
    "zsh": 'add this line to ~/.zshrc, after compinit:  eval "$(finclaw completion zsh)"',
    "fish": "run:  finclaw completion fish > ~/.config/fish/completions/finclaw.fish",
}
SHELLS: Final = tuple(_HOW)


def arguments(parser: ArgumentParser) -> None:
    add_state_options(parser)
    parser.add_argument("shell", choices=SHELLS, metavar="|".join(SHELLS), help="the shell that is to read it")


def run(args: Namespace) -> None:
    print(script(args.shell))


def script(shell: str) -> str:
    write = {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell]
    return "\n".join((f"# Completes finclaw in {shell}; {_HOW[shell]}", *write(build_parser())))


def _values(option: Action) -> str:
    """What follows an option: nothing, `dir`, `file`, some words, or `any`."""
    if option.nargs == 0:
        return ""
    if option.choices:
        return " ".join(map(str, option.choices))
    return {"DIR": "dir", "FILE": "file"}.get(str(option.metavar), "any")


def _names(parser: Parser) -> str:
    return " ".join(name for option in parser.options for name in option.option_strings)


def _tree(parser: Parser, above: str = "") -> Iterator[tuple[str, Parser]]:
    """Every command, and its actions if it has some, with all that is typed to reach it."""
    for name, command in parser.commands.items():
        yield above + name, command
        yield from _tree(command, f"{above}{name} ")


def _turn_words(command: Parser) -> tuple[str, ...]:
    """What is offered where a command takes a turn: ids change, this word always means one."""
    return tuple("last" for name in command.takes if name == "TURN")


def _second_words(name: str) -> tuple[str, ...]:
    """What is offered behind a command's first word, such as the models behind `models show`."""
    listed = load_listed() if name == "models" else ()
    return tuple(word for line in listed for word in (*line.aliases, line.id))


def _bash(parser: Parser) -> Iterator[str]:
    complete = {"dir": "compgen -d --", "file": "compgen -f --", "any": "compgen -W '' --"}
    yield "_finclaw() {"
    yield "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}"
    yield "  local command= action= words= files= each IFS=$' \\n'"
    # bash cuts --state=DIR in three
    yield "  [[ $word == = ]] && word=''"
    yield "  [[ $before == = ]] && before=${COMP_WORDS[COMP_CWORD-2]}"
    yield '  for each in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do'
    yield "    [[ $each == -* ]] && continue"
    yield "    [[ $command ]] && action=$each && break; command=$each"
    yield "  done"
    yield "  case $before in"
    options: dict[str, Action] = {}  # of every command, those that take a value
    for _, command in _tree(parser):
        for option in filter(_values, command.options):
            options.setdefault(option.option_strings[0], option)
    for option in options.values():
        how = complete.get(_values(option), f"compgen -W '{_values(option)}' --")
        yield f"    {'|'.join(option.option_strings)}) IFS=$'\\n'; COMPREPLY=($({how} \"$word\")); return;;"
    yield "  esac"
    yield '  case "$command $action" in'
    yield f"    ' ') words='{' '.join(parser.commands)} {_names(parser)}';;"
    for name, command in _tree(parser):
        typed = f"'{name}'" if " " in name else f"'{name} '*"
        if command.commands:
            typed = f"'{name} '"
        files = "files=yes " if "FILE" in command.takes else ""
        if command.words and not command.commands:  # such as `models show`: the choice is made
            yield f"    '{name} '?*) words='{' '.join((*_second_words(name), _names(command)))}';;"
        offered = (*command.words, *_turn_words(command), _names(command))
        yield f"    {typed}) {files}words='{' '.join(offered)}';;"
    yield "  esac"
    yield "  [[ $files && $word != -* ]] && IFS=$'\\n' && COMPREPLY=($(compgen -f -- \"$word\")) && return"
    yield '  COMPREPLY=($(compgen -W "$words" -- "$word"))'
    yield "}"
    yield "complete -o filenames -F _finclaw finclaw"


def _zsh(parser: Parser) -> Iterator[str]:
    yield "_finclaw() {"
    yield "  local -a commands=("
    yield from (f"    {_quote(f'{name}:{_about(command)}')}" for name, command in parser.commands.items())
    yield "  )"
    yield "  if (( CURRENT == 2 )); then"
    yield f"    _describe command commands; compadd -- {_names(parser)}; return"
    yield "  fi"
    yield "  local command=$words[2]; shift words; (( CURRENT-- ))"
    actions = [name for name, command in parser.commands.items() if command.commands]
    yield f"  if [[ ' {' '.join(actions)} ' == *\" $command \"* ]] && (( CURRENT > 2 )); then"
    yield '    command="$command $words[2]"; shift words; (( CURRENT-- ))'
    yield "  fi"
    yield "  case $command in"
    for name, command in _tree(parser):
        yield f"    {_quote(name)}) _arguments {' '.join(_zsh_arguments(name, command))};;"
    yield "  esac"
    yield "}"
    yield "compdef _finclaw finclaw"


def _zsh_arguments(name: str, command: Parser) -> Iterator[str]:
    for option in command.options:
        yield from _zsh_option(option)
    if command.words:
        yield _quote(f"1:choice:({' '.join(command.words)})")
        if second := _second_words(name):
            yield _quote(f"2:name:({' '.join(second)})")
    elif turn := _turn_words(command):
        yield _quote(f"1:turn:({' '.join(turn)})")
    elif "FILE" in command.takes:
        yield "'*:FILE:_files'"
    elif command.takes:
        yield f"'*:{command.takes[0]}: '"


def _zsh_option(option: Action) -> Iterator[str]:
    about = re.sub(r"([\[\]:])", r"\\\1", option.help or "")
    after = {"": "", "dir": ":DIR:_files -/", "file": ":FILE:_files", "any": f":{option.metavar}: "}
    values = _values(option)
    for name in option.option_strings:
        yield _quote(f"{name}[{about}]{after.get(values, f':value:({values})')}")


def _fish(parser: Parser) -> Iterator[str]:
    first = "test (count (commandline -opc)) -eq 1"
    yield "complete -c finclaw -f"
    for name, command in parser.commands.items():
        yield f"complete -c finclaw -n '{first}' -a {name} -d {_fish_quote(_about(command))}"
    yield from (_fish_option(first, option) for option in parser.options)
    for name, command in parser.commands.items():
        here = f'test (commandline -opc)[2] = "{name}" 2>/dev/null'
        alone = here
        if command.commands:
            alone += "; and test (count (commandline -opc)) -eq 2"
        yield from _fish_command(alone, command)
        if second := _second_words(name):
            behind = f"{here}; and test (count (commandline -opc)) -eq 3"
            yield f"complete -c finclaw -n '{behind}' -a '{' '.join(second)}'"
        for action, below in command.commands.items():
            yield from _fish_command(f'{here}; and test (commandline -opc)[3] = "{action}" 2>/dev/null', below)


def _fish_command(here: str, command: Parser) -> Iterator[str]:
    yield from (_fish_option(here, option) for option in command.options)
    if command.words:
        first = here
        if "count" not in here and not command.commands:
            first += "; and test (count (commandline -opc)) -eq 2"
        yield f"complete -c finclaw -n '{first}' -a '{' '.join(command.words)}'"
    if turn := _turn_words(command):
        yield f"complete -c finclaw -n '{here}' -a '{' '.join(turn)}'"
    if "FILE" in command.takes:
        yield f"complete -c finclaw -n '{here}' -F"


def _fish_option(when: str, option: Action) -> str:
    names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.option_strings)
    values = _values(option)
    how = {"": "", "dir": " -xa '(__fish_complete_directories)'", "file": " -rF", "any": " -x"}
    takes = how.get(values, f" -xa '{values}'")
    return f"complete -c finclaw -n '{when}' {names}{takes} -d {_fish_quote(option.help or '')}"


def _about(command: Parser) -> str:
    return (command.description or "").removesuffix(".")


def _quote(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _fish_quote(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
