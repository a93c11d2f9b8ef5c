"""How whoever gives way gives up its memory, by the configured rule in words of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedlab.config import PreemptionMode
from schedlab.device import CopyKind
from schedlab.law import Law, When
from schedlab.memory.swap import Tier
from schedlab.policies.base import Policy
from schedlab.policies.view import COMPUTE_BOUND_TOKENS
from schedlab.sequence import Sequence, State

if TYPE_CHECKING:
    from schedlab.core.scheduler import Scheduler

GIVES_UP = Law(
    "memory_is_given_up_as_configured",
    "A row that gives way goes to the tier that is configured, if there is room, and a prompt in progress is computed "
    "again; where the cheapest way is asked for, none costs less than the way that is taken.",
    When.CALL,
    numbers=(41, 49),
)

# The ways of an image behind the copy that takes it off the device: there and back again.
_REST = {
    Tier.HOST: (CopyKind.HOST_TO_DEVICE,),
    Tier.DISK: (CopyKind.HOST_TO_DISK, CopyKind.DISK_TO_HOST, CopyKind.HOST_TO_DEVICE),
}
Way = Tier | None


def right_ways(core: Scheduler, sequence: Sequence) -> tuple[Way, ...] | None:
    """To which tiers an owner may go that is about to give way; None stands for computing it again.

    No answer for policies with a rule of their own. O(1), and O(blocks that it shares) for the cheapest way.
    """
    if type(core.policy).give_up is not Policy.give_up:
        return None
    if sequence.state is not State.ACTIVE:
        return (None,)
    facts = core.device.facts
    image_bytes = len(sequence.block_table) * facts.block_bytes + facts.state_bytes
    used, budgets = core.swap.used_bytes, core.swap.budget_bytes
    roomy = [tier for tier in Tier if budgets[tier] - used[tier] >= image_bytes]
    mode = core.config.preemption
    if mode is PreemptionMode.CHEAPEST:
        return _cheapest(core, sequence, roomy, image_bytes)
    wanted = {PreemptionMode.HOST: (Tier.HOST,), PreemptionMode.DISK: (Tier.DISK, Tier.HOST)}.get(mode, ())
    return (next((tier for tier in wanted if tier in roomy), None),)


def memory_is_given_up_as_configured(sequence: Sequence, ways: tuple[Way, ...]) -> None:
    """Of one that has just given way."""
    taken = sequence.image.tier if sequence.image is not None else None
    if taken not in ways:
        raise GIVES_UP.broken(f"{sequence} goes to {taken}, {ways} would be right", sequence.request_id)


def _cheapest(core: Scheduler, row: Sequence, roomy: list[Tier], image_bytes: int) -> tuple[Way, ...]:
    """What costs least. The others wait for the way out; of the rest they feel the share that the row has of the pool.

    Blocks at the beginning that others hold too need not be computed again; few tokens pay for their part of a step
    that keeps the device computing.
    """
    device, table, pool = core.device, row.block_table, core.pool
    costs_ns: dict[Way, int] = {}
    own_tokens = core.batch.length(row) + 1
    for block in table:
        if pool.references(block) < 2:
            break
        own_tokens -= core.config.block_size
    step_tokens = max(own_tokens, min(core.config.max_num_batched_tokens, COMPUTE_BOUND_TOKENS))
    costs_ns[None] = device.prefill_ns(step_tokens) * own_tokens // step_tokens
    for tier in roomy:
        rest_ns = sum(device.copy_ns(kind, image_bytes) for kind in _REST[tier])
        costs_ns[tier] = (
            device.copy_ns(CopyKind.DEVICE_TO_HOST, image_bytes) + rest_ns * len(table) // pool.total_blocks
        )
    least_ns = min(costs_ns.values())
    return tuple(way for way, cost_ns in costs_ns.items() if cost_ns == least_ns)
