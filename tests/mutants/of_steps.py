"""Wrong steps: chunks, samples, ends of outputs, failures, lengths of runs."""

from __future__ import annotations

from schedlab.core import lanes, stops
from schedlab.core.limits import OutputLimits
from tests.mutants.mutant import Mutant, edit, mutant

MUTANTS: tuple[Mutant, ...] = (
    mutant(
        "a prefill kills",
        "who gives way to a prefill ends with an error",
        edit(
            lanes._make_room_for_chunk,
            'core.give_way(victim, "prefill")',
            'victim.error = "a prefill needed its blocks"; core.end(victim, FinishReason.ERROR)',
        ),
        defect=3,
    ),
    mutant(
        "waiting means admitted",
        "observers are told the number of newcomers instead of the length of the queue",
        edit(lanes._announce, "len(core.waiting)", "len(core.starting)"),
        defect=10,
    ),
    mutant(
        "whole history at once",
        "what was preempted is computed again in one chunk, whatever the budget",
        edit(lanes._chunk, "count = min(left, most)", "count = left if sequence.num_preemptions else min(left, most)"),
        defect=15,
    ),
    mutant(
        "min_tokens off by one",
        "an end of sequence counts one token early",
        edit(stops.ends, "num_outputs < sampling.min_tokens", "num_outputs < sampling.min_tokens - 1"),
        defect=18,
    ),
    mutant(
        "ignored ends count",
        "ignore_eos covers nothing",
        edit(stops.ends, " and not sampling.ignore_eos", ""),
    ),
    mutant(
        "stop ids ignored too",
        "ignore_eos covers stop ids as well",
        edit(
            stops.ends,
            "token in sampling.stop_token_ids",
            "(token in sampling.stop_token_ids and not sampling.ignore_eos)",
        ),
    ),
    mutant(
        "a token too many",
        "a request may produce a token more than it asked for",
        edit(OutputLimits.add, "- sequence.num_outputs", "- sequence.num_outputs + 1"),
        defect=19,
    ),
    mutant(
        "a token too few",
        "a request ends a token early",
        edit(OutputLimits.add, "- sequence.num_outputs", "- sequence.num_outputs - 1"),
    ),
    mutant(
        "one token asked, two given",
        "a request for one token decodes",
        edit(
            lanes._sample, "sequence.num_outputs >= sequence.max_outputs", "sequence.num_outputs > sequence.max_outputs"
        ),
        defect=19,
    ),
    mutant(
        "rows of a failed step go on",
        "a decode step that failed ends nobody",
        edit(lanes._fail, "failed = list(core.batch.rows)", "failed = []"),
    ),
    mutant(
        "a failed prefill takes the rows along",
        "rows that shared a step with a failed chunk end too",
        edit(lanes._fail, "if not step.chunks and step.decode is not None:", "if step.decode is not None:"),
    ),
    mutant(
        "blocks of a failed step stay",
        "rows keep the blocks that they got for a step that failed",
        edit(lanes._fail, "core.pool.release([row.block_table.pop()])", "pass"),
    ),
    mutant(
        "leap one too long",
        "a run goes on for an iteration behind the first end",
        edit(
            lanes._run_length,
            "core.limits.next_step() - core.batch.step",
            "core.limits.next_step() - core.batch.step + 1",
        ),
    ),
    mutant(
        "leap beyond the deadline",
        "a run does not stop for deadlines",
        edit(lanes._run_length, "core.deadlines[0][0] if core.deadlines else FOREVER_NS", "FOREVER_NS"),
    ),
    mutant(
        "leap over the waiting",
        "a run goes on though the policy would decide anew for whoever waits",
        edit(lanes._run_length, "until_ns = min(until_ns, core.refused_until_ns)", "pass"),
    ),
    mutant(
        "leap over the parked",
        "a run goes on though the policy would decide anew for whoever is parked",
        edit(lanes._run_length, "until_ns = min(until_ns, core.parked_refused_until_ns)", "pass"),
    ),
    mutant(
        "leap over what came",
        "a run is long though something has come",
        edit(lanes._plans_would_repeat, "if len(core.inbox) or core.prefilling or core.ending:", "if core.prefilling:"),
    ),
    mutant(
        "prefill limit exceeded by one",
        "a chunk may have a token more than max_prefill_tokens",
        edit(
            lanes._chunks, "core.config.max_prefill_tokens or tokens)", "core.config.max_prefill_tokens + 1 or tokens)"
        ),
    ),
    mutant(
        "chunks off the boundary",
        "pieces end anywhere though they should end on block boundaries",
        edit(lanes._aligned, "return boundary - start if boundary > start else count", "return count"),
    ),
    mutant(
        "prefill order by age turned round",
        "the newest prefill is continued first",
        edit(lanes._chunks, "list(core.prefilling)", "list(core.prefilling)[::-1]"),
    ),
    mutant(
        "a prompt is cut though chunks are off",
        "a prompt that does not fit whole is begun",
        edit(
            lanes._chunk,
            "if not core.config.chunked_prefill:\n            return None",
            "if False:\n            return None",
        ),
    ),
    mutant(
        "a chunk samples early",
        "the last chunk but one gives a token",
        edit(lanes._chunk, "count == left", "count >= left - 1"),
    ),
    mutant(
        "sampled twice after a preemption",
        "a prompt that is computed again gives its first token again",
        edit(lanes._sample, "if sequence.first_token_ns == NOT_YET:", "if True:"),
    ),
    mutant(
        "resumed with a token too many",
        "a sequence that returns forgets that its newest token is not computed",
        edit(
            lanes._advance_chunk,
            "sequence.num_computed = end",
            "sequence.num_computed = end + (sequence.num_preemptions > 0)",
        ),
    ),
    mutant(
        "rows end in any order",
        "rows that end together retire in the order in which the device names them",
        edit(lanes._end_rows, "sorted(ended, key=lambda row: row.row_index) if len(ended) > 1 else ended", "ended"),
    ),
    mutant(
        "length before stop",
        "a row that stops with its last token ends by length",
        edit(
            lanes._end_rows, "ended.setdefault(sequence, FinishReason.LENGTH)", "ended[sequence] = FinishReason.LENGTH"
        ),
    ),
    mutant(
        "growth handed out by row",
        "a run hands its blocks out row by row, not iteration by iteration",
        edit(
            lanes._advance_rows,
            "zip(cycle(chain.from_iterable(batch.growing_from(1))), blocks, strict=False)",
            "zip(cycle(batch.rows), blocks, strict=False)",
        ),
    ),
)
