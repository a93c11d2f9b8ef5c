"""How often each law was judged: a law about something that never happened has held, and says nothing.

Most laws are judged in every step. Those of this table are judged only where its occasions come about, and as often at
most: each line is a condition, met as often as its parts together.
"""

from __future__ import annotations

from typing import NamedTuple

from schedlab.invariants import laws
from schedlab.law import Law
from schedlab.testing.coverage import DEADLINE, DECISIONS, PLAYED_TWICE, STEP, Coverage
from schedlab.testing.features import Feature
from schedlab.testing.laws import BOUNDED_WAITING, SAME_INPUT, TESTING_LAWS


def _decisions(*beginnings: str) -> tuple[str, ...]:
    return tuple(name for name in DECISIONS if name.startswith(beginnings))


_BEHIND_PREFIX = ("admit: behind a cached prefix", "return: behind a cached prefix")
_RETURNS = ("return: computed again", "return: behind a cached prefix", "return: restored")
_SWAPS = _decisions("swap out")
_VICTIMS = _decisions("preempt", "swap out")
_CHOSEN = ("preempt: decode", "preempt: prefill", *_SWAPS)
_CHUNKS = ("step: first chunk alone", "step: chunks", "step: chunks and decode")
_DECODES = ("step: decode", "step: chunks and decode", "step: decode, repeated")

Condition = tuple[str, ...]
CONDITIONS: dict[str, tuple[Condition, ...]] = {
    "a_shared_block_is_held": (_BEHIND_PREFIX,),
    "parked_own_nothing": (_VICTIMS,),
    "ledger_is_the_sum_of_commitments": ((Feature.COMMITMENTS,),),
    "batch_aggregates_are_sums": (_DECODES,),
    "rows_keep_their_order": (_DECODES,),
    "newcomers_are_rows": (_DECODES,),
    "limits_know_the_next_end": (_DECODES,),
    "images_fill_their_tiers": ((Feature.SWAP,),),
    "restoring_waits_for_its_copy": (("return: restored",),),
    "only_open_copies_keep_memory": (_SWAPS,),
    "only_computed_blocks_are_published": ((Feature.PREFIX_CACHE,),),
    "keys_and_blocks_agree": ((Feature.PREFIX_CACHE,),),
    "tables_hold_blocks_of_their_own_text": ((Feature.PREFIX_CACHE,),),
    "blocks_are_shared_within_a_namespace": (_BEHIND_PREFIX,),
    "idle_blocks_go_leaf_first": ((Feature.PREFIX_CACHE,),),
    "snapshots_have_a_slot_each": ((Feature.SNAPSHOTS,),),
    "deadlines_are_watched": ((DEADLINE,),),
    "timeouts_are_swept": ((DEADLINE,),),
    "no_timeout_before_the_deadline": (("end: timeout",),),
    "refused_never_waits": (("refuse",),),
    "refused_requests_can_never_run": (("refuse",),),
    "a_seat_starts_behind_its_own_prefix": (_BEHIND_PREFIX,),
    "a_seat_starts_at_a_snapshot_it_may_use": (("snapshot: begun from",),),
    "preemption_keeps_outputs": (_RETURNS[:2],),
    "an_image_holds_all_blocks": (_SWAPS,),
    "a_swap_keeps_everything": (("return: restored",),),
    "each_row_gets_one_token_an_iteration": (_DECODES,),
    "a_reset_cache_is_empty": (("cache reset: done",),),
    "windows_only_move_on": ((Feature.WINDOWS,),),
    "lanes_are_as_configured": (_CHUNKS,),
    "chunk_has_its_shape": (_CHUNKS,),
    "the_oldest_prefill_goes_on_first": (_CHUNKS,),
    "a_piece_ends_for_a_reason": (("chunk: a piece",), (Feature.RULE_COMPOSES,)),
    "the_line_is_kept": (_VICTIMS, (Feature.ONE_LINE,)),
    "admission_leaves_room": ((Feature.RULE_ADMITS,),),
    "victim_keeps_its_outputs": (_decisions("preempt"),),
    "immune_ones_stay": (_CHOSEN, (Feature.IMMUNITY,), (Feature.RULE_CHOOSES_VICTIMS,)),
    "victim_by_rule": (_CHOSEN, (Feature.RULE_CHOOSES_VICTIMS,)),
    "resume_needs_room": (_RETURNS,),
    "resume_in_order": (_RETURNS,),
    "the_important_one_comes_in": ((Feature.EVICTION,),),
    "the_ended_leave_before_anybody_gives_way": (_VICTIMS,),
    "nobody_comes_in_where_rows_gave_way": (_CHOSEN,),
    "who_makes_way_does_so_for_somebody": (("preempt: priority", *_SWAPS),),
    "the_oldest_prefill_goes_on": (_CHUNKS,),
    "rows_go_on": (_DECODES,),
    "who_could_return_returns": (_VICTIMS,),
    "windows_keep_their_share": ((Feature.WINDOWS,),),
    "what_has_not_come_is_not_found": (_SWAPS, (Feature.PREFIX_CACHE,)),
    "memory_is_given_up_as_configured": (_VICTIMS,),
    "full_blocks_are_left_to_be_found": ((Feature.PREFIX_CACHE,),),
    "who_makes_way_is_swapped_out": ((Feature.SWAP_AT_ADMISSION,),),
    "length_means_all_outputs": (("end: length",),),
    "a_failed_step_ends_its_rows": (("end: error",),),
    "nobody_ends_while_it_could_go_on": (("end: error",),),
    "errors_leave_nothing_in_the_cache": (("end: error",), (Feature.PREFIX_CACHE,)),
    "one_decode_step_a_tick": (_DECODES,),
    "who_ends_goes_before_who_returns": (_RETURNS,),
    "slots_are_dense_after_an_end": ((Feature.DENSE_SLOTS,),),
    "no_step_touches_a_block_under_an_open_copy": ((*_SWAPS, "window: slid"),),
    "no_step_touches_a_slot_under_an_open_copy": (_SWAPS, (Feature.STATES,)),
    BOUNDED_WAITING.name: ((Feature.BOUNDED,),),
    SAME_INPUT.name: ((PLAYED_TWICE,),),
}


class Judged(NamedTuple):
    """How often a law was judged, at most; `lacks` is what never came about where that is never."""

    law: Law
    times: int
    lacks: str


def judged(coverage: Coverage) -> tuple[Judged, ...]:
    """Of every law, in the order of the list of laws."""
    counts = coverage.decisions + coverage.occasions
    found = []
    for law in (*laws(), *TESTING_LAWS):
        met = [(sum(counts[name] for name in names), names) for names in CONDITIONS.get(law.name, ((STEP,),))]
        times, names = min(met, key=lambda one: one[0])
        found.append(Judged(law, times, "" if times else " or ".join(names)))
    return tuple(found)
