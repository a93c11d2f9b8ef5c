"""Wrong swaps and windows: images, budgets, tickets, cursors."""

from __future__ import annotations

from schedlab.core import caching, swapping, windows
from schedlab.core.scheduler import Scheduler
from schedlab.memory.swap import SwapSpace
from tests.mutants.mutant import Mutant, edit, mutant

MUTANTS: tuple[Mutant, ...] = (
    mutant(
        "budget never enforced",
        "an image is written whether there is room for it or not",
        edit(
            SwapSpace.has_room,
            "self.used_bytes[tier] + num_bytes <= self.budget_bytes[tier]",
            "self.budget_bytes[tier] > 0",
        ),
        defect=6,
    ),
    mutant(
        "budget short by one byte",
        "an image that just fits is refused",
        edit(SwapSpace.has_room, "<=", "<"),
    ),
    mutant(
        "image bytes not given back",
        "the bytes of a dropped image stay taken",
        edit(SwapSpace.give_back, "self.used_bytes[tier] -= num_bytes", "pass"),
    ),
    mutant(
        "image kept at the end",
        "a sequence that ends swapped out keeps its image",
        edit(Scheduler.end, "swapping.drop_image(self, sequence)", "pass"),
    ),
    mutant(
        "the image counts the tokens only",
        "the state beside the blocks is not part of the image's size",
        edit(swapping.image_bytes, " + facts.state_bytes", ""),
    ),
    mutant(
        "a swap counts as free at once",
        "blocks of a victim go out again before its image is saved",
        edit(swapping.swap_out, "core.pool.release_after(blocks, saved)", "core.pool.release(blocks)"),
    ),
    mutant(
        "slot of a victim is free at once",
        "the slot of a victim goes out again before its state is saved",
        edit(swapping.swap_out, "core.slots.keep_open(slot, saved)", "pass"),
    ),
    mutant(
        "written before it is saved",
        "an image goes to disk before it has reached the host",
        edit(swapping.swap_out, "num_bytes, request_id, (saved,))", "num_bytes, request_id, ())"),
    ),
    mutant(
        "restored before it is written",
        "an image is read before it is written",
        edit(swapping.restore, "(image.written, reader) if ticket is not None", "(reader,) if ticket is not None"),
    ),
    mutant(
        "restored before it is staged",
        "an image goes to the device before it has come from disk",
        edit(swapping.restore, "after += (staged,)", "pass"),
    ),
    mutant(
        "restored under an open copy",
        "an image comes back onto blocks that another copy still reads",
        edit(
            swapping.restore,
            "after = core.pool.take_tickets() + tuple(",
            "core.pool.take_tickets()\n    after = tuple(",
        ),
    ),
    mutant(
        "restored in reverse",
        "the blocks of an image come back in the wrong order",
        edit(
            swapping.restore, "blocks = tuple(sequence.block_table)", "blocks = tuple(reversed(sequence.block_table))"
        ),
    ),
    mutant(
        "a block of the image is lost",
        "the last block of a table is not saved",
        edit(swapping.swap_out, "tuple(blocks), num_bytes", "tuple(blocks[:-1]), num_bytes"),
    ),
    mutant(
        "active before it is back",
        "a restored sequence decodes before its content has come",
        edit(
            swapping.restore,
            "core.restoring[sequence] = ticket",
            "core.restoring[sequence] = ticket; _end_restore(core, sequence, '')",
        ),
    ),
    mutant(
        "outputs lost by a swap",
        "a sequence comes back from a swap with an output less",
        edit(
            swapping._end_restore,
            "del core.restoring[sequence]",
            "del core.restoring[sequence]; sequence.num_outputs -= 1",
        ),
        defect=17,
    ),
    mutant(
        "a lost image is no loss",
        "a sequence whose image could not be saved is restored from it",
        edit(swapping.copy_ended, "elif error:", "elif False:"),
    ),
    mutant(
        "a failed restore is none",
        "a sequence goes on with what a failed copy has brought",
        edit(swapping._end_restore, "if error:", "if False:"),
    ),
    mutant(
        "a full disk takes the image",
        "an image that the disk refused stays counted there",
        edit(swapping._lose_image, "core.swap.give_back(image.tier, image.num_bytes)", "pass"),
    ),
    mutant(
        "a swapped victim of prefills",
        "a sequence is swapped out in the middle of its prompt",
        edit(swapping.swap_out, "if sequence.state is not State.ACTIVE:\n        return False", ""),
    ),
    mutant(
        "no immunity after a restore",
        "a restored sequence is a victim again at once",
        edit(swapping._end_restore, " + core.config.immunity_tokens", ""),
    ),
    mutant(
        "a window gives up its newest block",
        "the block that is being written goes to disk",
        edit(windows.slide, "min(total + AHEAD_BLOCKS - share, total - 1)", "total + AHEAD_BLOCKS - share"),
    ),
    mutant(
        "a window leaves early",
        "blocks leave the device before they are safe on disk",
        edit(windows._release, "min(excess, window.offloaded)", "min(excess, window.requested)"),
    ),
    mutant(
        "a window goes back",
        "the window's start is set to what is free to leave, not moved on",
        edit(windows._release, "window.start += leaving", "window.start = leaving"),
    ),
    mutant(
        "blocks of a window stay",
        "blocks that leave a window are not released",
        edit(windows._release, "core.pool.release(sequence.block_table[:leaving])", "pass"),
    ),
    mutant(
        "far blocks are not read",
        "blocks on disk cost nothing",
        edit(windows._release, "core.batch.far_blocks += leaving", "pass"),
    ),
    mutant(
        "the window's bytes stay",
        "what a sequence had on disk stays taken when it ends",
        edit(
            windows.drop_window,
            "core.swap.give_back(Tier.DISK, window.requested * core.device.facts.block_bytes)",
            "pass",
        ),
    ),
    mutant(
        "a failed offload counts",
        "a block whose copy failed may leave",
        edit(windows.offload_ended, "window.is_stuck = True", "window.offloaded += 1"),
    ),
    mutant(
        "a window too small by one",
        "a sequence keeps a block less than its share",
        edit(windows.slide, "_release(core, sequence, total - share)", "_release(core, sequence, total - share + 1)"),
    ),
    mutant(
        "a window is cached whole",
        "a sequence whose first blocks are on disk publishes the others under their keys",
        edit(caching.publish_outputs, " or (sequence.window and sequence.window.start)", ""),
    ),
)
