"""Laws about what lies in memory, for devices that know it: a shadow KV checks them at every read and write."""

from __future__ import annotations

from schedlab.law import Law, When

SOLO = Law(
    "outputs_equal_the_solo_run",
    "A request's outputs are those that it gives alone, whatever runs beside it and however it is preempted or cached.",
    When.SHADOW,
    numbers=(5, 41, 42, 50, 52, 57, 78),
    scenarios=(5,),
)
OPEN_BLOCK = Law(
    "no_step_touches_a_block_under_an_open_copy",
    "Nobody writes a block that a copy still reads or writes, unless he waits for that copy.",
    When.SHADOW,
    numbers=(50,),
)
OPEN_SLOT = Law(
    "no_step_touches_a_slot_under_an_open_copy",
    "Nobody writes a slot that a copy still reads or writes, unless he waits for that copy.",
    When.SHADOW,
    numbers=(12, 50),
)
HAS_BLOCK = Law(
    "every_position_has_a_block",
    "A sequence writes only to positions that its block table covers.",
    When.SHADOW,
    numbers=(6,),
)
