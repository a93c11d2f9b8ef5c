"""GPUs by name, from `hardware.toml`: data-sheet numbers, each record with its public source."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType

from backends.sim.specs.names import find_name, plain


@dataclass(frozen=True, slots=True)
class HardwareSpec:
    """One GPU. Bandwidths are bytes/s per GPU and, for links, per direction.

    `peak_flops` is dense bf16/fp16 with fp32 accumulation. `memory_bytes` is what the driver reports, not the number on
    the box. `link` joins the GPUs of one machine; `host_link` goes to the host's memory.
    """

    name: str
    peak_flops: int
    hbm_bandwidth_bytes_per_s: int
    memory_bytes: int
    link_bandwidth_bytes_per_s: int
    link_latency_ns: int
    host_link_bandwidth_bytes_per_s: int
    source: str


@cache
def all_hardware() -> MappingProxyType[str, HardwareSpec]:
    """Every bundled GPU by its name, in the file's order."""
    return MappingProxyType({name: spec for name, (spec, _) in _records().items()})


def find_hardware(name: str) -> HardwareSpec:
    """The GPU called *name*, without regard to case and punctuation: `h100`, `H100-SXM`. Raises UsageError."""
    records = _records()
    return records[find_name("hardware", name, _keys(), records)][0]


@cache
def _keys() -> dict[str, str]:
    keys = {}
    for name, (_, aliases) in _records().items():
        keys.update({plain(alias): name for alias in (name, *aliases)})
    return keys


@cache
def _records() -> dict[str, tuple[HardwareSpec, tuple[str, ...]]]:
    table = tomllib.loads(Path(__file__).with_name("hardware.toml").read_text("utf-8"))
    return {name: (_spec(name, dict(fields)), tuple(fields["aliases"])) for name, fields in table.items()}


def _spec(name: str, fields: dict[str, float]) -> HardwareSpec:
    return HardwareSpec(
        name=name,
        peak_flops=round(fields["peak_tflops"] * 10**12),
        hbm_bandwidth_bytes_per_s=round(fields["hbm_gbytes_per_s"] * 10**9),
        memory_bytes=int(fields["memory_mib"]) << 20,
        link_bandwidth_bytes_per_s=round(fields["link_gbytes_per_s"] * 10**9),
        link_latency_ns=int(fields["link_latency_ns"]),
        host_link_bandwidth_bytes_per_s=round(fields["host_link_gbytes_per_s"] * 10**9),
        source=str(fields["source"]),
    )
