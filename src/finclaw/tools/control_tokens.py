"""Names of the control tokens, by which a model speaks to the gateway, and how other people's are made harmless."""

import re
from typing import Final, Literal, get_args

ControlToken = Literal["NO_REPLY", "SILENT_REPLY", "HEARTBEAT_OK", "NEED_INPUT", "ATTACH_DISCLAIMER", "ATTACH_QUOTE"]
"""Written `<<NO_REPLY>>`: the only spelling that counts."""

CONTROL_TOKENS: Final[tuple[ControlToken, ...]] = get_args(ControlToken)

_ANY: Final = rf"(?<!<)<{{2,}}+({'|'.join(CONTROL_TOKENS)})>{{2,}}+"


def neutralize_control_tokens(text: str) -> str:
    """The text with every token as `<NO_REPLY>`: a model that repeats what a person or a page says commands nothing.

    Doing it again changes nothing. The very same text where there is none, as nearly always.
    """
    return re.sub(_ANY, r"<\1>", text) if "<<" in text else text
