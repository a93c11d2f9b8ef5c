"""Change every record of a trace in the same way."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

from schedlab.errors import UsageError
from traces.fields import BIGGEST
from traces.record import TraceRecord
from traces.report import ReadReport
from traces.trace import Trace
from traces.transforms.derived import Derived
from traces.words import counted


def scale_rate(trace: Trace, factor: float) -> Trace:
    """Arrivals `factor` times as dense: every gap is divided by it, and the first request comes at 0.

    The factor counts as its decimal digits say (0.1 is one tenth), the division is exact and rounded to the nearest
    nanosecond once, so that stamps never drift. Lengths and the think times of a closed loop stay: users do not think
    faster, more of them come. UsageError for a factor that is not above 0.
    """
    if not (math.isfinite(factor) and factor > 0):
        raise UsageError(f"rate scale is {factor:g}; it must be above 0")
    exact = Fraction(str(factor))
    up, down = exact.denominator, exact.numerator

    def step(records: Iterator[TraceRecord], report: ReadReport) -> Iterator[TraceRecord]:
        origin: int | None = None
        for record in records:
            if record.think_ns >= 0:
                yield record
                continue
            if origin is None:
                origin = record.arrival_ns
            arrival_ns = (2 * (record.arrival_ns - origin) * up + down) // (2 * down)
            if arrival_ns >= BIGGEST:
                raise UsageError(f"rate scale {factor:g} puts a request more than 146 years after the first; raise it")
            yield TraceRecord(arrival_ns, *record[1:])

    return Derived(trace, step, f"scaling its rate by {factor:g}")


def cap(trace: Trace, prompt_tokens: int | None = None, output_tokens: int | None = None) -> Trace:
    """Prompts and outputs cut to at most so many tokens; the report counts the rows that were cut.

    Block ids beyond the prompt go.
    """
    if prompt_tokens is not None and prompt_tokens < 1:
        raise UsageError(f"prompt cap is {prompt_tokens}; at least 1 token is needed")
    if output_tokens is not None and output_tokens < 0:
        raise UsageError(f"output cap is {output_tokens}; it must not be negative")

    def step(records: Iterator[TraceRecord], report: ReadReport) -> Iterator[TraceRecord]:
        prompts = outputs = 0
        for record in records:
            if prompt_tokens is not None and record.prompt_tokens > prompt_tokens:
                prompts += 1
                record = _with_prompt(record, prompt_tokens)
            if output_tokens is not None and record.output_tokens > output_tokens:
                outputs += 1
                record = record._replace(output_tokens=output_tokens)
            yield record
        if prompts:
            report.note(f"{counted(prompts, 'prompt')} cut to {prompt_tokens} tokens")
        if outputs:
            report.note(f"{counted(outputs, 'output')} cut to {output_tokens} tokens")

    caps = (("prompts", prompt_tokens), ("outputs", output_tokens))
    doing = " and ".join(f"{what} to {most:,} tokens" for what, most in caps if most is not None)
    return Derived(trace, step, f"cutting {doing}")


def _with_prompt(record: TraceRecord, prompt_tokens: int) -> TraceRecord:
    hash_ids = record.hash_ids
    if hash_ids is not None:
        hash_ids = hash_ids[: -(-prompt_tokens // record.hash_block_tokens)]
    return record._replace(prompt_tokens=prompt_tokens, hash_ids=hash_ids)


def anonymise(trace: Trace) -> Trace:
    """Sessions, tenants and block ids replaced by their numbers in the order in which they are met; equal ones stay
    equal.
    """

    def step(records: Iterator[TraceRecord], report: ReadReport) -> Iterator[TraceRecord]:
        sessions: dict[str, str] = {"": ""}
        tenants: dict[str, str] = {"": ""}
        known: dict[int, int] = {}
        for record in records:
            hash_ids = record.hash_ids
            if hash_ids is not None:
                hash_ids = tuple(known.setdefault(block, len(known)) for block in hash_ids)
            yield record._replace(
                session=sessions.setdefault(record.session, f"s{len(sessions) - 1}"),
                tenant=tenants.setdefault(record.tenant, f"t{len(tenants) - 1}"),
                hash_ids=hash_ids,
            )

    return Derived(trace, step, "numbering sessions, tenants and blocks anew")
