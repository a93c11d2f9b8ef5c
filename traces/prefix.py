"""How much of a trace's prompts an unlimited prefix cache would hold already:

the exact check of a reader of block ids.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from traces.record import TraceRecord


@dataclass
class PrefixCount:
    """Tokens hit by the leading run of known ids, each worth one block and capped at the prompt; the ids are known
    from then on.
    """

    input_tokens: int = 0
    hit_tokens: int = 0
    _known: dict[int, None] = field(default_factory=dict, repr=False)

    def add(self, record: TraceRecord) -> None:
        """Count one request, in order of arrival. A request without ids only adds its prompt."""
        self.input_tokens += record.prompt_tokens
        hit_blocks = 0
        known = self._known
        hash_ids = record.hash_ids or ()
        for block in hash_ids:
            if block not in known:
                break
            hit_blocks += 1
        self.hit_tokens += min(hit_blocks * record.hash_block_tokens, record.prompt_tokens)
        known.update(dict.fromkeys(hash_ids[hit_blocks:]))

    @property
    def blocks(self) -> int:
        """Distinct blocks seen."""
        return len(self._known)

    def as_dict(self) -> dict[str, int]:
        """The three counts."""
        return {"input_tokens": self.input_tokens, "hit_tokens": self.hit_tokens, "blocks": self.blocks}
