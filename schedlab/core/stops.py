"""Whether a token ends its request, for devices that have tokens."""

from __future__ import annotations

from schedlab.request import Request


def ends(request: Request, token: int, num_outputs: int) -> bool:
    """True if `token`, output number `num_outputs` (1-based), ends `request`.

    Fewer than `min_tokens` outputs never end, and `ignore_eos` covers the end-of-sequence ids only.
    """
    matched = request.stop is not None and request.stop.feed(token)
    sampling = request.sampling
    if num_outputs < sampling.min_tokens:
        return False
    if token in sampling.eos_token_ids and not sampling.ignore_eos:
        return True
    return matched or token in sampling.stop_token_ids
