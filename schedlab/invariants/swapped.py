"""Laws about content that has left the device, is on its way, or has windows on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedlab.core.swapping import Purpose
from schedlab.law import Law, When
from schedlab.memory.swap import Tier

if TYPE_CHECKING:
    from schedlab.core.scheduler import Scheduler

TIERS = Law(
    "images_fill_their_tiers",
    "Bytes taken of host and disk are those of the images and windows kept there, and never more than their budgets.",
    When.SWEEP,
    numbers=(49,),
    scenarios=(6,),
)
RESTORING = Law(
    "restoring_waits_for_its_copy",
    "A request that is being restored has its image and all blocks for it, and the copy that brings it is open.",
    When.SWEEP,
    numbers=(47, 49),
    scenarios=(4,),
)
OPEN = Law(
    "only_open_copies_keep_memory",
    "A block, a slot or an image waits for a copy only as long as that copy is under way.",
    When.SWEEP,
    numbers=(50,),
)


def images_fill_their_tiers(core: Scheduler) -> None:
    if not core.config.uses_swap:
        return
    kept = {Tier.HOST: 0, Tier.DISK: 0}
    for sequence in (*core.parked, *core.restoring):
        if sequence.image is not None:
            kept[sequence.image.tier] += sequence.image.num_bytes
    for sequence in (*core.view.owners(), *core.parked, *core.restoring):
        if sequence.window is not None:
            kept[Tier.DISK] += sequence.window.requested * core.device.facts.block_bytes
    for tier, num_bytes in kept.items():
        used, budget = core.swap.used_bytes[tier], core.swap.budget_bytes[tier]
        if used != num_bytes or used > budget:
            raise TIERS.broken(f"{tier}: {num_bytes} bytes of images, {used} of {budget} taken")


def restoring_waits_for_its_copy(core: Scheduler) -> None:
    for sequence, ticket in core.restoring.items():
        copy, image = core.copies.get(ticket.number), sequence.image
        if copy is None or copy.purpose is not Purpose.RESTORE or copy.sequence is not sequence:
            raise RESTORING.broken(f"{sequence} waits for copy {ticket.number}: {copy}", sequence.request_id)
        if image is None or len(sequence.block_table) != image.num_blocks:
            raise RESTORING.broken(
                f"{sequence} has {len(sequence.block_table)} blocks for {image}", sequence.request_id
            )


def only_open_copies_keep_memory(core: Scheduler) -> None:
    """Copies of windows are known by their last leg only."""
    for sequence in (*core.parked, *core.restoring):
        written = sequence.image.written if sequence.image is not None else None
        if written is not None and written.number not in core.copies:
            raise OPEN.broken(f"{sequence} waits for copy {written.number}, which has ended", sequence.request_id)
    if core.config.window_blocks:
        return
    for ticket in (*core.pool.open_tickets(), *core.slots.open_tickets()):
        if ticket.number not in core.copies:
            raise OPEN.broken(f"a block or slot waits for copy {ticket.number}, which has ended")


SWAP_CHECKS = (images_fill_their_tiers, restoring_waits_for_its_copy, only_open_copies_keep_memory)
