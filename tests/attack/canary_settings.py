"""Commands that print settings."""

from typing import Final

COMMANDS: Final = (
    ("config", "check"),
    ("config", "check", "--json"),
    ("config", "show"),
    ("config", "show", "--json"),
    ("doctor", "--json"),
    ("status",),
    ("models", "list"),
    ("extensions", "list"),
    ("tools", "list"),
    ("ask", "hello"),
)
