"""What must be left when a run is over: nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedlab.law import Law, When

if TYPE_CHECKING:
    from schedlab.core.scheduler import Scheduler

BLOCKS_BACK = Law(
    "all_blocks_come_back",
    "After the last request no block is held by anybody; what is not free is cached.",
    When.AUDIT,
    numbers=(7,),
    scenarios=(1, 6),
)
NOTHING_LEFT = Law(
    "nothing_is_left",
    "After the last request nobody is known, no seat, slot, reservation or commitment is taken, and no image is kept.",
    When.AUDIT,
    numbers=(49,),
    scenarios=(6, 8),
)


def nothing_is_left(core: Scheduler) -> None:
    if core.pool.used_blocks:
        raise BLOCKS_BACK.broken(f"{core.pool.used_blocks} blocks are used after the end")
    left = {
        "requests": len(core.sequences),
        "seats": core.config.max_num_seqs - core.free_seats,
        "slots": sum(core.slots.owner(slot) is not None for slot in range(core.slots.num_slots)),
        "reserved blocks": core.reserved_blocks,
        "committed blocks": core.ledger.blocks if core.ledger is not None else 0,
        "bytes of images": sum(core.swap.used_bytes.values()),
    }
    if any(left.values()):
        raise NOTHING_LEFT.broken(", ".join(f"{count} {what}" for what, count in left.items() if count))
