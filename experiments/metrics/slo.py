"""Service levels: which requests met their latency targets, and how many per second did."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any

from experiments.metrics.latency import TokenGaps
from experiments.metrics.requests import RequestTable
from experiments.metrics.stats import clean, present, ratio
from experiments.metrics.tables import as_numpy
from schedlab.errors import UsageError
from schedlab.pace import ns_to_quanta
from schedlab.request import FinishReason
from schedlab.sequence import NOT_YET

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

TARGETS = ("ttft", "tpot", "itl", "e2e")
_NS_PER_S = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Slo:
    """Targets in nanoseconds by name; only those that were given."""

    targets_ns: dict[str, int]

    @classmethod
    def parse(cls, targets_s: Mapping[str, float]) -> Slo:
        """Targets in seconds to nanoseconds.

        Raises:
            UsageError: an unknown name, or a time that is not positive and finite.
        """
        check_names(targets_s)
        for name, seconds in targets_s.items():
            if not (isfinite(seconds) and seconds > 0):
                raise UsageError(f"--slo: {name} is {seconds} s; give a time above 0, such as {name}=2s")
        return cls({name: round(targets_s[name] * _NS_PER_S) for name in TARGETS if name in targets_s})


def check_names(names: Iterable[str]) -> None:
    """Raise UsageError for a name that is no target."""
    for name in names:
        if name not in TARGETS:
            raise UsageError(f"--slo: {name!r} is no target; choose from {', '.join(TARGETS)}")


def met_by_request(slo: Slo, table: RequestTable) -> dict[str, npt.NDArray[np.bool_]]:
    """Per target other than itl, which rows met it.

    Only a request that ended by stop or length can meet anything. It meets a target that it has no figure for: one
    without a token has no TTFT, one with fewer than two has no TPOT.
    """
    complete = table.ended_by(FinishReason.STOP, FinishReason.LENGTH)
    arrival, first = as_numpy(table.arrival_ns), as_numpy(table.first_token_ns)
    last, later_tokens = as_numpy(table.last_token_ns), as_numpy(table.output_tokens) - 1
    targets, met = slo.targets_ns, {}
    if "ttft" in targets:
        met["ttft"] = complete & ((first == NOT_YET) | (first - arrival <= targets["ttft"]))
    if "tpot" in targets:
        met["tpot"] = complete & ((later_tokens < 1) | (last - first <= targets["tpot"] * later_tokens))
    if "e2e" in targets:
        met["e2e"] = complete & (as_numpy(table.finished_ns) - arrival <= targets["e2e"])
    return met


def measure(slo: Slo, table: RequestTable, gaps: TokenGaps, seconds: float) -> dict[str, Any]:
    """Attainment per target and goodput.

    Shares are of all ended requests, refused and failed ones included. The itl target is judged by gap, not by request
    (its share is of all gaps, to a bucket's width), and is no part of goodput.
    """
    met = met_by_request(slo, table)
    good = table.ended_by(FinishReason.STOP, FinishReason.LENGTH)
    attainment: dict[str, float | None] = {}
    for name, target_ns in slo.targets_ns.items():
        if name == "itl":
            attainment[name] = ratio(gaps.histogram.at_most(ns_to_quanta(target_ns)), gaps.histogram.count)
        else:
            good = good & met[name]
            attainment[name] = ratio(int(met[name].sum()), len(table))
    return present(
        targets={name: target_ns / _NS_PER_S for name, target_ns in slo.targets_ns.items()},
        share=ratio(int(good.sum()), len(table)),
        requests_per_s=clean(int(good.sum()) / seconds) if seconds else None,
        attainment=present(**attainment),
    )
