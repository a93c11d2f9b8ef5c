"""Wrong policies: order, admission, victims, gates."""

from __future__ import annotations

from schedlab.core.scheduler import Scheduler
from schedlab.policies.base import Policy
from schedlab.policies.priority import Priority
from schedlab.policies.queues import FifoQueue, KeyedQueue
from schedlab.policies.slai import FrontThenShortest, Slai
from tests.mutants.mutant import Mutant, edit, mutant

MUTANTS: tuple[Mutant, ...] = (
    mutant(
        "last come, first served",
        "the queue is served from its end",
        edit(FifoQueue.candidates, "iter(self)", "iter(reversed(self))"),
    ),
    mutant(
        "least important first",
        "higher priority values come first",
        edit(KeyedQueue.candidates, "iter(self._sequences)", "reversed(self._sequences)"),
    ),
    mutant(
        "priority without aging",
        "waiting gains nothing",
        edit(Priority.key, " + self._aging_micro * request.arrival_ns", ""),
    ),
    mutant(
        "aging turned round",
        "who has waited longer loses priority",
        edit(Priority.key, " + self._aging_micro", " - self._aging_micro"),
    ),
    mutant(
        "ties by chance of arrival",
        "requests of one class are not served in the order of arrival",
        edit(Policy.rank, "sequence.arrival_index", "-sequence.arrival_index"),
    ),
    mutant(
        "equals give way",
        "a request evicts owners of its own class",
        edit(
            Priority.make_way,
            "owner.request.priority > sequence.request.priority",
            "owner.request.priority >= sequence.request.priority",
        ),
    ),
    mutant(
        "evicts for nothing",
        "owners give way though the request still does not fit",
        edit(Priority.make_way, "return victims if seats and blocks >= needed_blocks else ()", "return victims"),
    ),
    mutant(
        "evicts the wrong end",
        "the most important of the less important goes first",
        edit(
            Priority.make_way,
            "(-owner.request.priority, -owner.admission_index)",
            "(owner.request.priority, -owner.admission_index)",
        ),
    ),
    mutant(
        "one victim too many",
        "an owner more than needed is evicted",
        edit(
            Priority.make_way,
            "if seats and blocks >= needed_blocks:\n            break",
            "if seats and blocks > needed_blocks:\n            break",
        ),
    ),
    mutant(
        "first in, first out of the pool",
        "the first admitted gives way instead of the last",
        edit(
            Policy.yield_,
            "return max(self._not_immune(view, candidates), key=lambda sequence: sequence.admission_index)",
            "return min(self._not_immune(view, candidates), key=lambda sequence: sequence.admission_index)",
        ),
    ),
    mutant(
        "most outputs go",
        "who has produced most gives way",
        edit(
            Policy.yield_,
            "(view.outputs(sequence), sequence.admission_index)",
            "(-view.outputs(sequence), sequence.admission_index)",
        ),
    ),
    mutant(
        "most important goes",
        "the most important owner gives way",
        edit(
            Policy.yield_,
            "(sequence.request.priority, sequence.admission_index)",
            "(-sequence.request.priority, sequence.admission_index)",
        ),
    ),
    mutant(
        "immunity ignored",
        "a sequence that has just come back gives way again",
        edit(Policy._not_immune, "if not self.config.immunity_tokens:", "if True:"),
    ),
    mutant(
        "immunity one short",
        "immunity ends one output early",
        edit(Policy._not_immune, ">= one.immune_until_outputs", ">= one.immune_until_outputs - 1"),
    ),
    mutant(
        "immunity not given",
        "a resumed sequence is not immune",
        edit(Scheduler.resume, " + self.config.immunity_tokens", ""),
    ),
    mutant(
        "admitted into the reserve",
        "blocks that prefills in progress will take count as free",
        edit(Policy._fits_prompt, "view.free_blocks - view.reserved_blocks", "view.free_blocks"),
    ),
    mutant(
        "watermark ignored",
        "an admission leaves nothing free",
        edit(Policy._fits_prompt, " + self.config.watermark_blocks", ""),
    ),
    mutant(
        "watermark off by one",
        "an admission leaves a block less than it should",
        edit(
            Policy._fits_prompt,
            "needed_blocks + self.config.watermark_blocks <=",
            "needed_blocks + self.config.watermark_blocks - 1 <=",
        ),
    ),
    mutant(
        "overcommitted by one",
        "commitments may exceed the pool by a block",
        edit(Policy._fits_commitment, "committed + needed_blocks <=", "committed + needed_blocks - 1 <="),
    ),
    mutant(
        "nothing fits an empty pool",
        "a request whose commitment exceeds the pool waits though nobody else is there",
        edit(Policy._fits_commitment, "committed == 0 or ", ""),
    ),
    mutant(
        "largest returns first",
        "the preempted with the most blocks returns first",
        edit(
            Policy.resume_key,
            "return view.prompt_blocks(sequence), sequence.arrival_index",
            "return -view.prompt_blocks(sequence), sequence.arrival_index",
        ),
    ),
    mutant(
        "cheapest is dearest",
        "the dearest way to give up memory is taken",
        edit(Policy.give_up, "return min(times_ns", "return max(times_ns"),
    ),
    mutant(
        "no front",
        "slai takes the shortest first and lets the oldest wait",
        edit(FrontThenShortest.candidates, "front = next(iter(self._arrivals))", "front = self._lengths[0]"),
    ),
    mutant(
        "longest first",
        "slai takes the longest behind the front",
        edit(FrontThenShortest.candidates, "in self._lengths:", "in reversed(self._lengths):"),
    ),
    mutant(
        "slai is impatient never",
        "prefills go on however long rows have waited",
        edit(Slai.compose, "return 0", "return view.token_budget"),
    ),
    mutant(
        "slai waits for more",
        "slai holds back only behind its margin",
        edit(Slai.compose, ">= self._patience_ns", "> self._patience_ns"),
    ),
    mutant(
        "removed from one of two",
        "slai's queue keeps the lengths of requests that have gone",
        edit(FrontThenShortest.remove, "self._lengths.remove(sequence)", "pass"),
    ),
)
