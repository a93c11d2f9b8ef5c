"""Prompts whose words are known: equal beginnings have equal keys."""

from __future__ import annotations

from collections.abc import Iterable

from schedlab.request import Prompt

OWN = "*"


class Texts:
    """Numbers every beginning that any of its prompts has, so that equal numbers mean equal tokens from the first on.

    A prompt is a list of pieces (stream, tokens): the first so many tokens of a stream that has that name. The stream
    `*` is each request's own.
    """

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, str, int], int] = {}

    def prompt(self, pieces: Iterable[tuple[str, int]], owner: str) -> Prompt:
        """The pieces one behind the other, with a chained id for each token."""
        ids: list[int] = []
        last = 0
        for stream, count in pieces:
            name = f"{OWN}{owner}" if stream == OWN else stream
            for index in range(count):
                last = self._numbers.setdefault((last, name, index), len(self._numbers) + 1)
                ids.append(last)
        return Prompt(len(ids), tuple(ids), 1)
