"""Flags that people know from vLLM and type here, and what they are called here."""

from __future__ import annotations

from dataclasses import fields

from schedlab.config import SchedulerConfig

_HERE = {
    "enable-prefix-caching": "--set prefix_cache=true",
    "no-enable-prefix-caching": "--set prefix_cache=false",
    "enable-chunked-prefill": "--set chunked_prefill=true",
    "no-enable-chunked-prefill": "--set chunked_prefill=false",
    "long-prefill-token-threshold": "--set max_prefill_tokens=N",
    "gpu-memory-utilization": "--memory-percent N",
    "num-gpu-blocks-override": "--num-blocks N",
    "scheduling-policy": "--policy NAME",
    "schedule-policy": "--policy NAME",
    "tensor-parallel-size": "--tp N",
    "gpu": "--hardware NAME",
    "num-gpus": "--tp N",
    "swap-space": "--set preemption=host --set swap_host_gib=N",
    "kv-offloading-size": "--set preemption=host --set swap_host_gib=N",
    "model": "the model as an argument without a flag",
    "config": "each flag on its own",
}


def hint(flag: str) -> str:
    """What to write instead of a flag that does not exist; empty where nothing here does the same."""
    name = flag.lstrip("-").replace("_", "-")
    field = name.replace("-", "_")
    if field in {one.name for one in fields(SchedulerConfig)}:
        return f"write --set {field}=VALUE"
    return f"write {_HERE[name]}" if name in _HERE else ""
