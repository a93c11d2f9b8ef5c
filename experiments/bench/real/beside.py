"""The two bars on a CPU beside transformers: one stream, and 64 chats. Sides take turns, so noise meets both alike."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from statistics import median
from typing import NamedTuple

from backends.cuda.families import read_spec
from backends.cuda.loading import model_folder
from backends.cuda.spec import ModelSpec
from experiments.bench.real.probe import Rates, probe
from experiments.bench.real.side import Load, Side, Taken
from experiments.bench.real.sides import ours, theirs
from experiments.serve.real import demo_model

_SEED = 0
_FLOAT32_BYTES = 4


class Case(NamedTuple):
    """A load, how many times as fast as transformers it is to be, and how often a round repeats it."""

    name: str
    load: Load
    bar: float
    repeats: int


def cases(num_chats: int, vocab: int) -> list[Case]:
    """One stream of 128 tokens behind a prompt of 32; chats with prompts and outputs of 16 to 256 tokens."""
    random = Random(_SEED)

    def prompt(num_tokens: int) -> tuple[int, ...]:
        return tuple(random.randrange(vocab) for _ in range(num_tokens))

    stream = Load((prompt(32),), (128,), at_a_time=1)
    lengths = [(random.randint(16, 256), random.randint(16, 256)) for _ in range(num_chats)]
    chats = Load(tuple(prompt(length) for length, _ in lengths), tuple(count for _, count in lengths), at_a_time=16)
    return [
        Case("one stream, prompt 32, output 128", stream, 1.3, repeats=5),
        Case(f"{num_chats} chats of 16-256 + 16-256 tokens, 16 at a time", chats, 2.0, repeats=1),
    ]


def lines(num_chats: int, num_rounds: int, num_threads: int) -> Iterator[str]:
    """The result as Markdown."""
    spec = read_spec(model_folder(demo_model()) / "config.json")
    found = []
    with Side(ours, num_threads) as our_side, Side(theirs, num_threads) as their_side:
        warm_up = Load(((1, 2, 3),), (2,), at_a_time=1)
        for side in (our_side, their_side):
            side.serve(warm_up)
        rates = [probe(num_threads)]
        for case in cases(num_chats, spec.vocab):
            times = num_rounds * case.repeats
            pairs = [(our_side.serve(case.load), their_side.serve(case.load)) for _ in range(times)]
            rates.append(probe(num_threads))
            found.append((case, pairs))
    machine = Rates(*(median(column) for column in zip(*rates, strict=True)))
    yield "| load | this project, tokens/s | transformers, tokens/s | times | times by CPU time | bar |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    for case, pairs in found:
        tokens = sum(case.load.outputs)
        mine_s, others_s = (median(pair[side].wall_s for pair in pairs) for side in (0, 1))
        yield (
            f"| {case.name} | {tokens / mine_s:.1f} | {tokens / others_s:.1f} "
            f"| {_times(pairs, 'wall_s'):.2f} | {_times(pairs, 'cpu_s'):.2f} | {case.bar:g} |"
        )
    yield ""
    yield f"Measured beside: {machine.read_gb_s:.1f} GB/s read, {machine.gemm_gflop_s:.0f} GFLOP/s of float32 GEMM."
    yield ""
    for case, pairs in found:
        yield f"- {case.name}: {_share(case, median(mine.wall_s for mine, _ in pairs), spec, machine)}"


def _times(pairs: list[tuple[Taken, Taken]], column: str) -> float:
    """How many times as much of it transformers took."""
    return float(median(getattr(other, column) / getattr(mine, column) for mine, other in pairs))


def _share(case: Case, wall_s: float, spec: ModelSpec, machine: Rates) -> str:
    """Of the machine's rates: the weights that decode steps read at least, and the products of all tokens."""
    load, weights = case.load, _layer_weights(spec)
    head = spec.vocab * spec.hidden
    least_steps = -(-sum(load.outputs) // load.at_a_time)
    read_gb_s = least_steps * (weights + head) * _FLOAT32_BYTES / wall_s / 1e9
    products = weights * (sum(map(len, load.prompts)) + sum(load.outputs)) + head * sum(load.outputs)
    gflop_s = 2 * products / wall_s / 1e9
    return (
        f"the weights of {least_steps:,} steps at least, {100 * read_gb_s / machine.read_gb_s:.0f} % of the read rate; "
        f"the products of all tokens, {100 * gflop_s / machine.gemm_gflop_s:.0f} % of the GEMM rate"
    )


def _layer_weights(spec: ModelSpec) -> int:
    attention = spec.hidden * spec.head_dim * (2 * spec.heads + 2 * spec.kv_heads)
    return spec.layers * (attention + 3 * spec.hidden * spec.intermediate)
