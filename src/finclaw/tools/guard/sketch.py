"""A sketch of a text, in which a number stands out: how it is drawn, and how numbers look in it."""

import string
from typing import Final

SKETCH: Final = bytes(
    ord("0") if chr(code) in string.digits
    else ord("A") if chr(code) in string.ascii_letters
    else ord("-") if chr(code) in " -"
    else ord(".") if chr(code) == "."
    else ord("x")
    for code in range(256)
)  # fmt: skip

NUMBER: Final = rb"""
    000(?<!0000)(?:
        -(?: (?= 00-0000(?!0) )()
           | (?= (?:00-000000 | 000-000000 | 0000-0000-00 | 000000-00000 | 000000-00-000)(?!0) )())
      | 0(?: -(?<!0000\.0000\.0000\.0000-)(?:
                  (?<!0000-0000-)(?= (?:--)?0000(?:GAP0000){2}(?:GAP0{1,3})?(?!0)(?!-0000(?!0)) )()
                      (?:0000-0000-(?=0000(?!0)))?+  # in the middle of four fours begins nothing else
                | (?= (?:--)?000000GAP00000?(?!0) )()
                | (?= 000-000000(?!0) | 00-0000000(?!0) )())
           | \.(?= 0000\.0000\.0000(?!0) )()
           | 00(?: -(?: (?= -{0,2}0000000(?!0) )() | (?= 00-000000(?!0) )())
                 | 00(?: -(?= (?:--)?0000GAP0000(?:GAP0{1,3})?(?!0)(?!-0000(?!0)) )()
                       | 0000(?: -(?= (?:--)?0000(?:GAP0{1,3})?(?!0)(?!-0000(?!0)) )()
                               | 0(?!0)()
                               | 0000(?!0)(?= (?:-|---)0{1,3}(?!0) )()
                               | 00{1,6}(?!0)()
                               | 0{8}0*+)))))
    """.replace(b"GAP", b"(?:-|---)?")
"""The first digits of what may be a card, an account or a person's number, in a sketch.

Of each branch the first mark behind the digits decides, so that the numbers of a table are passed over fast.
"""
ONES: Final = b"-".join([b"0"] * 13)
IBAN: Final = rb"AA00(?<![0A]AA00)(?=" + rb"-?+[0A]" * 11 + rb")"
