"""Text as it may be stored and sent: whole characters only."""


def whole_characters(text: str) -> str:
    """Halves of surrogate pairs, which JSON can smuggle in, joined to the character they mean or replaced by '�'.

    UTF-8 has no halves: a lone one would break a commit or a request.
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
