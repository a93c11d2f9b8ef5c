"""The policy protocol: a small object that decides and does no I/O."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence as List
from typing import Any

from schedlab.config import AdmissionRule, PreemptionMode, ResumeRule, SchedulerConfig, VictimRule
from schedlab.device import FOREVER_NS
from schedlab.memory.swap import Tier
from schedlab.policies.queues import FifoQueue, KeyedQueue, WaitingQueue
from schedlab.policies.view import View
from schedlab.request import Request
from schedlab.sequence import Sequence, State


class Policy:
    """First in, first out, with the admission, victim and resume rules that the configuration names.

    A policy of your own overrides only what it changes. Its answers must follow from what it is given: no wall clock,
    no global, no randomness but its own seeded generator.
    """

    name = "custom"
    # May a request wait for ever while others keep coming? `schedlab check` demands bounded waiting of all who do not
    # say so, as a bound on how many later requests come in before it.
    may_starve = False

    def __init__(self, config: SchedulerConfig) -> None:
        self.config = config

    def key(self, request: Request) -> Any:
        """Who is considered next: lower first, then arrival. It must not change while a request waits."""
        return 0

    def waiting_queue(self) -> WaitingQueue:
        """The queue of waiting requests; override it for an order that no static key gives."""
        return FifoQueue() if type(self).key is Policy.key else KeyedQueue(self.rank)

    def rank(self, sequence: Sequence) -> tuple[Any, int]:
        """A sequence's place in line."""
        return self.key(sequence.request), sequence.arrival_index

    def compose(self, view: View) -> int:
        """Prefill tokens for the next step; at most `view.token_budget` counts. 0 = no prefill and no admission now."""
        return view.token_budget

    def admit(self, view: View, sequence: Sequence) -> bool:
        """May a waiting or preempted sequence come in now? Seats and tokens are checked already."""
        if self.config.admission is AdmissionRule.COMMIT:
            return self._fits_commitment(view, view.commitment(sequence))
        return self._fits_prompt(view, view.missing_blocks(sequence))

    def make_way(self, view: View, sequence: Sequence) -> List[Sequence]:
        """Owners that leave so that a refused `sequence` can come in; all of them or none.

        This default is swap-out at admission where the configuration has it: active sequences in the order of the
        victim rule, none that is immune, and only as many as the host or the disk has room for.
        """
        if not self.config.swap_at_admission or view.num_parked or not view.free_seats:
            return ()
        missing_blocks = view.missing_blocks(sequence) + self.config.watermark_blocks
        missing_blocks -= view.free_blocks - view.reserved_blocks
        left, victims = self._swappable(view), list[Sequence]()
        while missing_blocks > 0 and left:
            victim = self.yield_(view, left)
            left.remove(victim)
            victims.append(victim)
            missing_blocks -= view.room_for(sequence, victim)
        return victims if missing_blocks <= 0 and view.has_swap_room(victims) else ()

    def yield_(self, view: View, candidates: Iterable[Sequence]) -> Sequence:
        """Who of `candidates` (never empty) gives up its blocks, now that a step cannot have those it needs?"""
        rule = self.config.victim
        if rule is VictimRule.LAST_IN:
            return max(self._not_immune(view, candidates), key=lambda sequence: sequence.admission_index)
        if rule is VictimRule.FEWEST_OUTPUTS:
            return min(
                self._not_immune(view, candidates),
                key=lambda sequence: (view.outputs(sequence), sequence.admission_index),
            )
        return max(
            self._not_immune(view, candidates),
            key=lambda sequence: (sequence.request.priority, sequence.admission_index),
        )

    def give_up(self, view: View, victim: Sequence) -> PreemptionMode:
        """How the victim gives up its blocks: computed again, or copied to the host or the disk and back."""
        if victim.state is not State.ACTIVE:
            return PreemptionMode.RECOMPUTE
        if self.config.preemption is not PreemptionMode.CHEAPEST:
            return self.config.preemption
        times_ns = {PreemptionMode.RECOMPUTE: view.recompute_ns(victim)}
        for mode, tier in ((PreemptionMode.HOST, Tier.HOST), (PreemptionMode.DISK, Tier.DISK)):
            swap_ns = view.swap_ns(victim, tier)
            if swap_ns is not None:
                times_ns[mode] = swap_ns
        return min(times_ns, key=lambda mode: times_ns[mode])

    def resume_key(self, view: View, sequence: Sequence) -> Any:
        """Who returns first among the preempted: lowest first. It must not change while a sequence is preempted."""
        if self.config.resume is ResumeRule.SMALLEST:
            return view.prompt_blocks(sequence), sequence.arrival_index
        return self.rank(sequence)

    def stable_until_ns(self, view: View) -> int:
        """Until when, while requests wait, every plan would decide as this one if no sequence ends and nothing comes.

        The device may repeat a decode step until then. A policy that reads the clock, or whose gate may open while
        blocks only get fewer, must not say more than it knows; this default says nothing.
        """
        return view.now_ns

    def _swappable(self, view: View) -> list[Sequence]:
        """Active sequences that are not immune, and that the host or the disk suits better than computing again."""
        return [
            owner
            for owner in view.owners()
            if owner.state is State.ACTIVE
            and view.outputs(owner) >= owner.immune_until_outputs
            and self.give_up(view, owner) is not PreemptionMode.RECOMPUTE
        ]

    def _fits_prompt(self, view: View, needed_blocks: int) -> bool:
        if view.free_seats == self.config.max_num_seqs:
            return needed_blocks <= view.free_blocks
        return needed_blocks + self.config.watermark_blocks <= view.free_blocks - view.reserved_blocks

    def _fits_commitment(self, view: View, needed_blocks: int) -> bool:
        committed = view.committed_blocks
        return committed == 0 or committed + needed_blocks <= view.total_blocks * self.config.overcommit_percent // 100

    def _not_immune(self, view: View, candidates: Iterable[Sequence]) -> List[Sequence]:
        everyone = list(candidates)
        if not self.config.immunity_tokens:
            return everyone
        return [one for one in everyone if view.outputs(one) >= one.immune_until_outputs] or everyone


class StaticPolicy(Policy):
    """A policy whose plans, while requests wait, change only when a sequence ends or something comes.

    Without an ending, free blocks only fall and commitments never do, so a refused head stays refused.
    """

    def stable_until_ns(self, view: View) -> int:
        return FOREVER_NS
