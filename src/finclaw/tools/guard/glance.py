"""Whether a text could hold a secret at all. Most hold nothing that even begins like one, and a glance tells."""

from typing import Final

from finclaw.tools.guard.accounts import IBAN_SKETCH
from finclaw.tools.guard.accounts import LABELS as ACCOUNTS
from finclaw.tools.guard.keys import BEGINNINGS
from finclaw.tools.guard.labels import LABELS as SECRETS
from finclaw.tools.guard.residents import SOCIAL
from finclaw.tools.guard.view import View

_ALL: Final = SECRETS + ACCOUNTS + SOCIAL
_WORDS: Final = tuple(word.encode() for word in _ALL if word.isascii())
_KOREAN: Final = tuple(word for word in _ALL if not word.isascii())


def may_hold_secrets(view: View) -> bool:
    """False only where no search would find anything."""
    lower, text = view.lower, view.text
    for word in _WORDS:  # loops, because this is done to every line that anybody is told
        if word in lower:
            return True
    for beginning in BEGINNINGS:
        if beginning in text:
            return True
    if not text.isascii() and any(word in text for word in _KOREAN):
        return True
    return IBAN_SKETCH.search(view.sketch) is not None or (bool(view.numbers) and any(view.islands.values()))
