"""Laws that the memory itself enforces, in every run: a breach is a defect of whoever calls it."""

from __future__ import annotations

from schedlab.law import Law, When

SHARED_IS_HELD = Law(
    "a_shared_block_is_held", "Only a block that somebody holds can be shared.", When.CALL, numbers=(4,), scenarios=(1,)
)
RELEASED_IS_HELD = Law(
    "a_released_block_is_held",
    "A block is released by a holder, and as often as it was taken: no reference count falls below zero.",
    When.CALL,
    numbers=(4,),
    scenarios=(1,),
)
ONE_SLOT_EACH = Law(
    "a_claimed_slot_is_free",
    "A sequence that gets a seat gets one free slot, and it has none before.",
    When.CALL,
    numbers=(10,),
)
RELEASED_SLOT_IS_OWN = Law(
    "a_released_slot_is_its_owners", "A slot is given back by the sequence that owns it.", When.CALL, numbers=(10, 11)
)
