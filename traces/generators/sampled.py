"""Lengths drawn with replacement from the rows of a file: any trace, or a table of lengths without arrivals."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np

from schedlab.errors import UsageError
from traces.detect import read_head
from traces.fields import Place, csv_rows
from traces.formats import vidur
from traces.generators.lengths import Tokens
from traces.generators.normal import CHUNK_ROWS
from traces.open import open_trace
from traces.source import Source


@dataclass(frozen=True)
class Sampled:
    """Pairs of prompt and output as they occur together; `sha256` names the lengths."""

    prompts: Tokens = field(repr=False)
    outputs: Tokens = field(repr=False)
    kind: ClassVar[str] = "sampled"

    def params(self) -> dict[str, object]:
        digest = hashlib.sha256(self.prompts.tobytes() + self.outputs.tobytes()).hexdigest()
        return {"kind": self.kind, "rows": len(self.prompts), "sha256": digest}

    def chunks(self, rng: np.random.Generator) -> Iterator[tuple[Tokens, Tokens]]:
        while True:
            at = rng.integers(len(self.prompts), size=CHUNK_ROWS)
            yield self.prompts[at], self.outputs[at]


def sampled_lengths(path: str) -> Sampled:
    """The lengths of a file. UsageError when it has none."""
    pairs = np.array(list(_pairs(path)), dtype=np.int64).reshape(-1, 2)
    if not len(pairs):
        raise UsageError(f"{path}: no row with a prompt to draw lengths from")
    return Sampled(np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1]))


def _pairs(path: str) -> Iterator[tuple[int, int]]:
    source = Source(Path(path))
    if not vidur.matches_lengths(read_head(source)):
        for record in open_trace(path).records():
            yield record.prompt_tokens, record.output_tokens
        return
    with source.text() as lines:
        place = Place(source.name)
        for row in csv_rows(lines, place):
            prompt, output = vidur.lengths_of(place, row)
            if prompt:
                yield prompt, output
