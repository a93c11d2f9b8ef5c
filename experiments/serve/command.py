"""`schedlab serve`, from its flags to the end of the server."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from experiments.config import schedlab_version
from experiments.extras import need
from experiments.incident.recorder import RecordedScheduler, line_of, ticks_path
from experiments.options import options_from
from experiments.serve.lines_file import LinesFile
from experiments.serve.model_path import refuse_no_model
from experiments.serve.recorder import Recorder
from experiments.serve.served import Served
from schedlab.errors import UsageError
from schedlab.policies.presets import find_preset
from schedlab.policies.priority import Priority

DEVICES = ("auto", "cuda", "cpu", "sim")
GENERATION_CONFIGS = ("auto", "none")
# Of a request's body: several prompts of usual length, or a whole context as token ids.
_BODY_BYTES, _BODY_BYTES_PER_TOKEN = 2 << 20, 16
_MAX_LOGPROBS = 20
_NEEDED = ("fastapi", "uvicorn", "prometheus_client")
_NEEDED_BY_MODELS = ("torch", "safetensors", "tokenizers", "gguf")
# What shapes a modelled GPU only.
_OF_SIM = ("hardware", "tp", "cost", "cost_set")


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """What a server has beside the scheduler's options, which are a replay's.

    Attributes:
        max_queue: requests that may wait beside those that have a seat; more are told to come again.
        drain_s: time that requests in flight have when the server is to end.
        seed: of the requests that bring none, and of dummy weights.
        dtype, load_format: of a real model; None = auto.
        generation_config: auto (None): sampling that a request does not state is what the model's
            `generation_config.json` names; none: it is temperature 1 and all tokens.
        record: file to write the traffic to as a trace, and beside it all that the scheduler is told; None = none.
    """

    device: str = "auto"
    host: str = "127.0.0.1"
    port: int = 8000
    api_key: str | None = None
    served_model_name: str | None = None
    max_queue: int = 1024
    drain_s: float = 30.0
    seed: int = 0
    dtype: str | None = None
    load_format: str | None = None
    generation_config: str | None = None
    record: Path | None = None

    def __post_init__(self) -> None:
        if self.device not in DEVICES:
            raise UsageError(f"--device {self.device!r} is not known; choose one of {', '.join(DEVICES)}")
        if self.generation_config not in (None, *GENERATION_CONFIGS):
            choices = " or ".join(GENERATION_CONFIGS)
            raise UsageError(f"--generation-config {self.generation_config!r} is not known; choose {choices}")
        if not 0 <= self.port < 1 << 16:
            raise UsageError(f"--port is {self.port}; give 0 (any that is free) to 65535")
        if self.max_queue < 0:
            raise UsageError(f"--max-queue is {self.max_queue}; give 0 or more")
        if self.api_key is not None and not (self.api_key and self.api_key.isascii() and self.api_key.isprintable()):
            raise UsageError("--api-key must be printable ASCII, at least one character")

    def model_files(self) -> dict[str, Any]:
        """The options that concern the files of a model."""
        return {
            "dtype": self.dtype,
            "load_format": self.load_format,
            "generation_config": self.generation_config,
        }


def serve(given: Mapping[str, Any], options: ServeOptions) -> bool:
    """Serve until a signal ends it; `given` are the options that a replay has too. False if the scheduler died.

    If its step in flight does not end in time, or a second signal comes, the process ends with code 1.

    Raises UsageError for anything wrong with the options, and without the extra `serve`.
    """
    need("serve", _NEEDED)
    from schedlab.serve.server import bind, leave_if_running, run_server

    bound = bind(options.host, options.port)
    served = _served(given, options)
    with ExitStack() as ends, ExitStack() as records:
        if options.record is not None:
            served = _recorded(served, given, options.record, records)
        service = _service(served, options)
        # When the records are closed.
        ends.callback(leave_if_running, service.engine)
        return run_server(service, bound, served.what, options.drain_s)


def _recorded(served: Served, given: Mapping[str, Any], path: Path, records: ExitStack) -> Served:
    """The same with a scheduler that tells of all that it is told; `records` closes the files."""
    recorder = Recorder(path, served.core.config.block_size, _about(served, given, path))
    records.callback(recorder.close)
    ticks: LinesFile[dict[str, Any]] = LinesFile(ticks_path(path), line_of)
    records.callback(ticks.close)
    chosen = options_from({name: given.get(name) for name in ("preset", "policy", "set", "block_size")})
    policy_name = chosen.policy or find_preset(chosen.preset).policy
    core = RecordedScheduler(served.core, policy_name, chosen.settings, ticks.put)
    core.bus.add(recorder)
    return replace(served, core=core)


def _about(served: Served, given: Mapping[str, Any], path: Path) -> str:
    """Who served what is recorded, and how to see that again."""
    flags: list[str] = []
    for name, value in given.items():
        values = [f"{key}={text}" for key, text in value.items()] if isinstance(value, Mapping) else [value]
        if name != "model" and value is not None:
            flags += [word for one in values for word in (f"--{name.replace('_', '-')}", str(one))]
    with_flags = f" with {shlex.join(flags)}" if flags else ""
    return (
        f"recorded by a server of {served.name} ({served.what}){with_flags}: give model and flags again to see that "
        f"run; schedlab replay {ticks_path(path).name} plays it exactly"
    )


def _served(given: Mapping[str, Any], options: ServeOptions) -> Served:
    if options.device == "sim":
        _refuse(options.model_files(), "it is about the files of a real model, and --device sim has none")
        from experiments.serve.simulated import simulated

        return simulated(options_from(given))
    _refuse({name: given.get(name) for name in _OF_SIM}, "it shapes a modelled GPU: use --device sim")
    model = given.get("model")
    if model is not None:
        refuse_no_model(model, with_weights=options.load_format != "dummy")
    need("a real model", _NEEDED_BY_MODELS, "or use --device sim")
    from experiments.serve.real import real

    # For whoever watches: what reads standard error finds an error alone there.
    if sys.stderr.isatty():
        print(f"schedlab: loading {model or 'the demo model'}", file=sys.stderr, flush=True)
    shared = {name: value for name, value in given.items() if name != "model"}
    files = {name: value or "auto" for name, value in options.model_files().items()}
    return real(options_from(shared), model, options.device, **files)


def _refuse(flags: Mapping[str, Any], why: str) -> None:
    for name, value in flags.items():
        if value is not None:
            raise UsageError(f"--{name.replace('_', '-')} has no effect here: {why}")


def _service(served: Served, options: ServeOptions) -> Any:
    from schedlab.serve.checks import Limits
    from schedlab.serve.engine import Engine
    from schedlab.serve.metrics import ServerMetrics
    from schedlab.serve.service import Service

    core = served.core
    name = options.served_model_name or served.name
    metrics = ServerMetrics(core, name)
    core.bus.add(metrics)
    has_priorities = isinstance(core.policy, Priority)
    limits = Limits(name, core.config, core.pool.total_blocks, _MAX_LOGPROBS, has_priorities)
    return Service(
        Engine(core, served.device),
        served.tokenizer,
        limits,
        Random(options.seed),
        schedlab_version(),
        options.api_key,
        options.max_queue,
        _BODY_BYTES + _BODY_BYTES_PER_TOKEN * core.config.max_model_len,
        metrics,
        served.sampling,
    )
