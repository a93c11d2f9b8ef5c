"""How counts are said."""

from __future__ import annotations


def counted(count: int, one: str, many: str = "") -> str:
    """`1 row`, `2,000 rows`; `many` where it is not `one` with an s."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def printable(text: str) -> str:
    """The same text with everything that could steer a terminal, or that no encoding has, as U+FFFD."""
    return text if text.isprintable() else "".join(letter if letter.isprintable() else "\ufffd" for letter in text)
