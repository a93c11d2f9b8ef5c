"""Arrival processes and length models as they are written on the command line.

| arrivals | meaning |
| --- | --- |
| poisson | independent requests |
| gamma:CV, weibull:CV | renewal process with this coefficient of variation of the gaps |
| onoff:ON_S,OFF_S | bursts and silences of these mean lengths |
| diurnal:AMPLITUDE[,PERIOD_S] | a rate that swings by this share; a day by default |
| clients:N,SKEW,CV | N clients with shares as 1 / i^SKEW, each bursty |
| a model's name or file | its gaps; scaled to the rate where one is given |

| lengths | meaning |
| --- | --- |
| fixed:P,O | every request the same |
| uniform:P1-P2,O1-O2 | every length in the range as likely |
| lognormal:PMEDIAN,PSIGMA,OMEDIAN,OSIGMA[,CORRELATION] | log-normal |
| a model's name or file | its quantiles |
| a trace file, or a Vidur table of lengths | its rows, drawn with replacement |
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

from schedlab.errors import UsageError
from traces.generators.arrivals import Arrivals, EmpiricalGaps, Gamma, Poisson, Weibull, weibull_shape
from traces.generators.bursts import Diurnal, OnOff
from traces.generators.lengths import Fixed, Lengths, Lognormal, Uniform
from traces.generators.mix import ClientMix, Mix
from traces.generators.params import between
from traces.generators.sampled import sampled_lengths
from traces.generators.synthetic import SyntheticTrace
from traces.models import load_model, model_path
from traces.source import Source
from traces.trace import Trace


def generate(arrivals: str, lengths: str, rows: int, seed: int, rate: float | None) -> Trace:
    """A trace from two specifications. UsageError names the one that is wrong and says how it is written."""
    kind, _, parameters = arrivals.partition(":")
    model = parse_lengths(lengths)
    shown = "" if rate is None else f" at {rate:g} requests/s"
    notes = (f"modelled, not original: {arrivals} arrivals{shown}, {lengths} lengths, seed {seed}",)
    if kind == "clients":
        clients, skew, cv = _numbers("--arrivals", arrivals, "clients:N,SKEW,CV", parameters, 3, 3)
        if clients != clients // 1:
            raise UsageError(f"--arrivals {arrivals}: N is {clients:g}; give a whole number of clients")
        return ClientMix(Mix(_needed(rate, kind), int(clients), skew, cv), model, rows, seed, notes)
    return SyntheticTrace(kind, parse_arrivals(arrivals, rate), model, rows, seed, notes)


def parse_arrivals(spec: str, rate: float | None) -> Arrivals:
    """An arrival process from its specification and the mean rate (requests/s)."""
    kind, _, parameters = spec.partition(":")
    found = model_path(spec)
    if found is not None:
        return _scaled(load_model(Source(found))[0], rate)
    if kind == "poisson" and not parameters:
        return Poisson(_needed(rate, kind))
    if kind == "gamma":
        return Gamma(_needed(rate, kind), *_numbers("--arrivals", spec, "gamma:CV", parameters, 1, 1))
    if kind == "weibull":
        (cv,) = _numbers("--arrivals", spec, "weibull:CV", parameters, 1, 1)
        return Weibull(_needed(rate, kind), weibull_shape(cv))
    if kind == "onoff":
        return OnOff(_needed(rate, kind), *_numbers("--arrivals", spec, "onoff:ON_S,OFF_S", parameters, 2, 2))
    if kind == "diurnal":
        form = "diurnal:AMPLITUDE[,PERIOD_S]"
        return Diurnal(_needed(rate, kind), *_numbers("--arrivals", spec, form, parameters, 1, 2))
    raise UsageError(
        f"--arrivals {spec}: known are poisson, gamma:CV, weibull:CV, onoff:ON_S,OFF_S, diurnal:AMPLITUDE[,PERIOD_S], "
        "clients:N,SKEW,CV and models by name"
    )


def parse_lengths(spec: str) -> Lengths:
    """A length model from its specification."""
    kind, _, parameters = spec.partition(":")
    found = model_path(spec)
    if found is not None:
        return load_model(Source(found))[1]
    if kind == "fixed":
        return Fixed(*_whole("--lengths", spec, "fixed:P,O", parameters, 2))
    if kind == "uniform":
        form = "uniform:P1-P2,O1-O2"
        return Uniform(*_whole("--lengths", spec, form, parameters.replace("-", ","), 4))
    if kind == "lognormal":
        form = "lognormal:PMEDIAN,PSIGMA,OMEDIAN,OSIGMA[,CORRELATION]"
        return Lognormal(*_numbers("--lengths", spec, form, parameters, 4, 5))
    if Path(spec).is_file():
        return sampled_lengths(spec)
    raise UsageError(
        f"--lengths {spec}: known are fixed:P,O, uniform:P1-P2,O1-O2, "
        "lognormal:PMEDIAN,PSIGMA,OMEDIAN,OSIGMA[,CORRELATION], models by name and trace files"
    )


def _scaled(gaps: EmpiricalGaps, rate: float | None) -> EmpiricalGaps:
    return gaps if rate is None else replace(gaps, mean_gap_ns=1e9 / _needed(rate, "model"))


def _needed(rate: float | None, kind: str) -> float:
    if rate is None:
        raise UsageError(f"--arrivals {kind}: give the mean rate with --rate (requests per second)")
    if not rate > 0:
        raise UsageError(f"--rate is {rate:g}; it must be above 0")
    return between("--rate", rate, 1e-9, 1e12)


def _numbers(flag: str, spec: str, form: str, parameters: str, least: int, most: int) -> list[float]:
    try:
        values = [float(value) for value in parameters.split(",")]
    except ValueError:
        values = []
    if not least <= len(values) <= most:
        raise UsageError(f"{flag} {spec}: is written {form}")
    return values


def _whole(flag: str, spec: str, form: str, parameters: str, many: int) -> list[int]:
    values = _numbers(flag, spec, form, parameters, many, many)
    if not all(math.isfinite(value) and value == int(value) for value in values):
        raise UsageError(f"{flag} {spec}: is written {form}, in whole tokens")
    return [int(value) for value in values]
