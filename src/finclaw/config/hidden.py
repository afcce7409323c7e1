"""Redaction of commands and addresses in `config show`: secrets that somebody wrote into the file all the same."""

import re
from collections.abc import Sequence
from typing import Final

from finclaw.redaction import is_secret_name

HIDDEN: Final = "not-shown"
_ASSIGNED: Final = re.compile(r"(?P<name>-{0,2}[\w.-]+)=(?P<value>.+)", re.DOTALL)
_PASSWORD: Final = re.compile(r"(?<=://)([^/\s:@?#]*):[^/\s@?#]*@")
_IN_QUERY: Final = re.compile(r"([?&;#][^=&;#?\s]*)=[^&;#\s]*")


def is_reference(value: object) -> bool:
    """It says where a value is kept, and not the value."""
    return isinstance(value, str) and value.startswith(("env:", "file:"))


def hide_arguments(command: Sequence[object]) -> list[object]:
    """A program's arguments without the values of options such as `--token`."""
    shown: list[object] = []
    follows_secret = False
    for word in command:
        if follows_secret and isinstance(word, str) and not word.startswith("-"):
            shown.append(HIDDEN)
        else:
            shown.append(_hide_assigned(word) if isinstance(word, str) else word)
        follows_secret = isinstance(word, str) and word.startswith("-") and is_secret_name(word)
    return shown


def _hide_assigned(word: str) -> str:
    found = _ASSIGNED.fullmatch(word)
    return f"{found['name']}={HIDDEN}" if found is not None and is_secret_name(found["name"]) else word


def hide_in_address(text: str) -> str:
    """A web address without its password and without the values in its query."""
    if "://" not in text:
        return text
    return _IN_QUERY.sub(rf"\1={HIDDEN}", _PASSWORD.sub(rf"\1:{HIDDEN}@", text))
