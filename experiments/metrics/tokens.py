"""Which prefill chunks give an output token that is not the first one of its request."""

from __future__ import annotations

from schedlab.device import Chunk


def samples_later_token(chunk: Chunk) -> bool:
    """True if the chunk ends a re-prefill: it covers outputs too, so the token that it samples has a former one."""
    return chunk.samples and chunk.start + chunk.num_tokens > chunk.sequence.num_prompt_tokens
