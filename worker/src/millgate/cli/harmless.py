"""Text that others wrote, made fit for a terminal. Pure."""

from __future__ import annotations


def harmless(text: str) -> str:
    """The text as one line that moves no cursor and changes no colour: other characters become blanks or escapes."""
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() else " " if letter.isspace() else ascii(letter)[1:-1]
        for letter in text
    )


def lines(text: str) -> str:
    """Several lines, each of them harmless; tabs and indents stay."""
    return "\n".join(harmless(line) for line in text.rstrip().expandtabs().split("\n"))
