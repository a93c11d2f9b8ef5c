"""Where a trace comes from: its source, and what was done to it since."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Lineage:
    """The name and SHA-256 of the source, and the transforms since then, in order.

    `converted`: the file that was read is a copy in schedlab's own format.
    """

    name: str
    sha256: str
    steps: tuple[str, ...] = ()
    converted: bool = False

    def then(self, step: str) -> Lineage:
        """With one more transform, as a participle: `keeping the first 5 rows`."""
        return replace(self, steps=(*self.steps, step))

    @property
    def kind(self) -> str:
        """Of a trace that was not drawn from a model: original, or derived."""
        return "derived" if self.steps else "original"

    def title(self, is_model: bool) -> str:
        """What to call the trace in a sentence."""
        origin = f"derived from {self.name} by {', then '.join(self.steps)}"
        if is_model:
            return f"modelled trace, {origin}" if self.steps else "modelled trace"
        if self.steps:
            return origin
        return f"original trace, converted from {self.name}" if self.converted else "original trace"
