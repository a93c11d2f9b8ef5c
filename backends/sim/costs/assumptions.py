"""What the roofline assumes beyond data sheets. Published or round figures; none is fitted to a measured run."""

from __future__ import annotations

from dataclasses import dataclass, fields

from schedlab.errors import UsageError


@dataclass(frozen=True, slots=True)
class Assumptions:
    """Reached shares of the data-sheet peaks in percent, and fixed times in nanoseconds; see SOURCES."""

    gemm_percent: int = 70
    attention_percent: int = 50
    hbm_percent: int = 80
    link_percent: int = 75
    kernel_ns: int = 2_000
    launch_ns: int = 5_000
    host_ns: int = 300_000

    def __post_init__(self) -> None:
        for field in fields(self):
            value, percent = getattr(self, field.name), field.name.endswith("_percent")
            low, high = (1, 100) if percent else (0, 10**9)
            if not low <= value <= high:
                raise UsageError(f"roofline: {field.name} must be a whole number in {low}..{high}, got {value}")


SOURCES = {
    "gemm_percent": "assumption: a large bf16 GEMM of a vendor library reaches about 70 % of the dense peak",
    "attention_percent": "FlashAttention-2 (Dao 2023), abstract: 50-73 % of the A100 peak; the lower end is used",
    "hbm_percent": "ai-dynamo/aiconfigurator systems/*.yaml: mem_bw_empirical_scaling_factor 0.8",
    "link_percent": "assumption: bus bandwidth of large all-reduces over NVLink is about 75 % of the link's",
    "kernel_ns": "assumption: start and tail of one kernel beyond its bytes and FLOPs, in a captured graph too",
    "launch_ns": "assumption: host time to launch one kernel; a step with prefill launches them one by one, overlapped "
    "with the GPU; a decode-only step is one captured graph and pays none",
    "host_ns": "assumption: input preparation and output handling of a step that the GPU does not hide",
}
