"""The system prompt, from sections. First form: identity, the extensions' sections, the operator's own words last."""

from collections.abc import Iterable

IDENTITY = (
    "You are FinClaw, an assistant for questions about markets and the person's own money. "
    "Every figure you give comes from a tool's result in this conversation, with its time; never invent one. "
    "Answer in the language of the person's message. You do not give investment advice."
)


def system_prompt(sections: Iterable[tuple[str, str]], instructions: str) -> str:
    parts = [IDENTITY, *(f"## {title}\n{text}" for title, text in sections)]
    if instructions.strip():
        parts.append(f"## From the operator\n{instructions.strip()}")
    return "\n\n".join(parts)
