"""Detection of hidden text: what people cannot see must not reach the model, for a page instructs one that way."""

import re
from collections.abc import Mapping
from typing import Final

_COMMENT: Final = re.compile(r"/\*(?:.*?\*/|.*)", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\([0-9a-f]{1,6})\s?|\\(.)", re.DOTALL)
_BLANKS: Final = re.compile(r"\s+")
_HIDING: Final = re.compile(
    r"""(?:^|;)(?:
        display:none | (?:content-)?visibility:(?:hidden|collapse) | color:transparent
      | font-size:(?:0|1px|1pt)(?![.0-9]*[1-9]) | opacity:(?:0|0?\.0\d*)(?![.0-9]*[1-9])
      | (?:max-)?(?:width|height):0(?![.0-9]*[1-9])
      | (?:text-indent|left|top|right|bottom|margin-left|margin-top):-[0-9]{3,}
      | clip:rect\((?:0|1px) | clip-path:(?:inset\((?:50|100)%|circle\(0) | transform:scale\(0(?![.0-9]*[1-9])
    )""",
    re.VERBOSE,
)
_COLOUR: Final = re.compile(r"(?:^|;)(color|background(?:-color)?):([^;!]{1,64})")
_LONGEST: Final = 4_000
"""Characters of a style. Nobody writes a longer one for people."""
_INVISIBLE: Final = re.compile(
    r"[\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    r"\U000e0000-\U000e007f\U000e0100-\U000e01ef]"
)
"""Signs without a shape: marks of direction, blanks without width, and letters that only a machine can see."""


def is_hidden(name: str, attributes: Mapping[str, str]) -> bool:
    if "hidden" in attributes or attributes.get("aria-hidden", "").strip().lower() == "true":
        return True
    if name == "dialog" and "open" not in attributes:
        return True
    return "style" in attributes and is_hiding(attributes["style"])


def is_hiding(style: str) -> bool:
    if len(style) > _LONGEST:
        return True
    plain = _BLANKS.sub("", _ESCAPE.sub(_character, _COMMENT.sub("", style.lower())))
    if _HIDING.search(plain):
        return True
    colours = dict(_COLOUR.findall(plain))
    background = colours.get("background-color") or colours.get("background")
    return background is not None and background == colours.get("color")


def without_invisible(text: str) -> str:
    return _INVISIBLE.sub("", text)


def _character(escape: re.Match[str]) -> str:
    code = int(escape[1], 16) if escape[1] else 0
    return escape[2] or (chr(code).lower() if code < 0x11_0000 else "")
