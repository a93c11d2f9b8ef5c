"""One request's state across prefill and decode, and the moves that are legal."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from schedlab.errors import IllegalTransition
from schedlab.request import FinishReason, Request

if TYPE_CHECKING:
    from schedlab.memory.snapshots import Snapshot
    from schedlab.memory.swap import Image
    from schedlab.memory.window import Window

NOT_YET = -1


class State(StrEnum):
    """Where a sequence is; it is in exactly one of these."""

    PENDING = "pending"
    PREFILLING = "prefilling"
    ACTIVE = "active"
    PREEMPTED = "preempted"
    SWAPPED = "swapped"
    RESTORING = "restoring"
    FINISHED = "finished"


LEGAL_MOVES: dict[State, frozenset[State]] = {
    State.PENDING: frozenset({State.PREFILLING, State.FINISHED}),
    State.PREFILLING: frozenset({State.ACTIVE, State.PREEMPTED, State.FINISHED}),
    State.ACTIVE: frozenset({State.PREEMPTED, State.SWAPPED, State.FINISHED}),
    State.PREEMPTED: frozenset({State.PREFILLING, State.FINISHED}),
    State.SWAPPED: frozenset({State.RESTORING, State.PREEMPTED, State.FINISHED}),
    State.RESTORING: frozenset({State.ACTIVE, State.PREEMPTED, State.FINISHED}),
    State.FINISHED: frozenset(),
}


class Sequence:
    """The only mutable thing about a request.

    *Known* tokens are the prompt and the outputs; *computed* ones have their keys and values in the pool. A sequence
    decodes when exactly one known token (the newest) is not computed; until then it prefills, after a preemption too.
    While it is in the decode batch `num_computed` and `num_outputs` are derived from the batch's step counter and are
    brought up to date when it leaves.
    """

    __slots__ = (
        "admission_index",
        "admitted_ns",
        "arrival_index",
        "block_table",
        "cached_prefix",
        "cached_prefix_version",
        "cached_snapshot",
        "end_tokens",
        "error",
        "finish_reason",
        "finished_ns",
        "first_token_ns",
        "has_keys",
        "image",
        "immune_until_outputs",
        "joined_len",
        "joined_ns",
        "joined_step",
        "keys",
        "last_token_ns",
        "max_outputs",
        "no_way_at",
        "num_cached_tokens",
        "num_cached_tokens_on_return",
        "num_computed",
        "num_found_blocks",
        "num_outputs",
        "num_preemptions",
        "num_prompt_tokens",
        "num_recomputed_tokens",
        "num_swaps",
        "published_blocks",
        "reads_cache",
        "recompute_until",
        "request",
        "request_id",
        "reserved_blocks",
        "row_index",
        "slot",
        "state",
        "times_bypassed",
        "window",
    )

    def __init__(self, request: Request, arrival_index: int, max_outputs: int, *, has_keys: bool = False) -> None:
        self.request = request
        self.request_id = request.request_id
        self.arrival_index = arrival_index
        self.num_prompt_tokens = request.prompt.num_tokens
        # No other token can end it by its id; `stops.ends` says whether one of these does.
        self.end_tokens = frozenset(request.sampling.eos_token_ids + request.sampling.stop_token_ids)
        self.max_outputs = max_outputs
        self.state = State.PENDING
        self.num_computed = 0
        self.num_outputs = 0
        self.block_table: list[int] = []
        # Can its blocks be found by what they hold? Without, none of the fields that follow is ever used.
        self.has_keys = has_keys
        # Does it take what others left? A prompt whose tokens are scored is computed in whole.
        self.reads_cache = has_keys and request.sampling.prompt_logprobs is None
        # Keys of its first full blocks, as far as they are known; None = not asked for yet.
        self.keys: list[int] | None = None
        self.published_blocks = 0
        # The answer of the last lookup, good while the pool's version is the same. It holds no references.
        self.cached_prefix: list[int] = []
        self.cached_prefix_version = NOT_YET
        # Where sequences carry a state: the snapshot behind that prefix, and the blocks of the prefix without one.
        self.cached_snapshot: Snapshot | None = None
        self.num_found_blocks = 0
        self.window: Window | None = None
        self.image: Image | None = None
        self.admission_index = NOT_YET
        # Blocks that its prefill in progress will still take; counted in the scheduler's sum of reservations.
        self.reserved_blocks = 0
        self.row_index = NOT_YET
        self.slot = NOT_YET
        self.joined_step = 0
        self.joined_len = 0
        self.joined_ns = NOT_YET
        self.admitted_ns = NOT_YET
        self.first_token_ns = NOT_YET
        self.last_token_ns = NOT_YET
        self.finished_ns = NOT_YET
        self.finish_reason: FinishReason | None = None
        self.error = ""
        self.num_preemptions = 0
        self.num_swaps = 0
        self.num_cached_tokens = 0
        self.num_cached_tokens_on_return = 0
        self.num_recomputed_tokens = 0
        self.recompute_until = 0
        self.immune_until_outputs = 0
        self.times_bypassed = 0
        # The count of the scheduler's changes at which nobody could make way for it.
        self.no_way_at = NOT_YET

    @property
    def num_known(self) -> int:
        """Tokens of the prompt and outputs; valid while the sequence is not in the decode batch."""
        return self.num_prompt_tokens + self.num_outputs

    def move_to(self, state: State) -> None:
        """Change the state.

        Raises:
            IllegalTransition: the state machine has no such move.
        """
        if state not in LEGAL_MOVES[self.state]:
            raise IllegalTransition(f"request {self.request_id}: {self.state} -> {state}")
        self.state = state

    def __repr__(self) -> str:
        return f"Sequence({self.request_id}, {self.state})"
