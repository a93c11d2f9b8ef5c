"""The bars on a GPU: `python -m experiments.bench.real.gpu` writes reports/gallery/real_device_gpu.md.

Weights are seeded random numbers in the shapes of published models, which is as fast as the real ones.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import torch

from backends.cuda.loading import LoadFormat, load_model
from backends.cuda.model import Model
from experiments.bench.machine import machine
from experiments.bench.real.side import Load
from experiments.bench.real.sides import ready
from reports.files import replace_file

GALLERY = Path("reports/gallery/real_device_gpu.md")
_SEED, _ROUNDS = 0, 20
_COPY_BYTES = 2 << 30
_ROWS, _CONTEXT, _BLOCK = 64, 4096, 16
_MAX_MODEL_LEN = 4096

# Fields of the models' own config.json.
LLAMA_3_8B = {
    "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256, "max_position_embeddings": 8192,
    "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "tie_word_embeddings": False, "dtype": "bfloat16",
}  # fmt: skip
QWEN3_06B = {
    "model_type": "qwen3", "hidden_size": 1024, "num_hidden_layers": 28, "num_attention_heads": 16,
    "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 3072, "vocab_size": 151936,
    "max_position_embeddings": 40960, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "tie_word_embeddings": True,
    "dtype": "bfloat16",
}  # fmt: skip


def seconds(work: Callable[[], object]) -> float:
    """Of one call on the GPU: the median of several, behind a first one that compiles."""
    work()
    taken: list[float] = []
    for _ in range(_ROUNDS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        work()
        end.record()
        end.synchronize()
        taken.append(begin.elapsed_time(end) / 1e3)
    return median(taken)


def copy_bytes_per_s() -> float:
    """Bytes read and written by a copy within the GPU's memory."""
    source = torch.empty(_COPY_BYTES, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    return 2 * _COPY_BYTES / seconds(lambda: target.copy_(source))


def attention_bytes_per_s() -> float:
    """Keys and values that decode attention reads: 64 rows of 4,096 tokens, in the shape of Llama-3-8B's heads."""
    from kernels.decode_triton import decode_attention

    heads, kv_heads, size = 32, 8, 128
    blocks = _ROWS * _CONTEXT // _BLOCK
    keys, values = torch.randn(2, blocks, _BLOCK, kv_heads, size, device="cuda", dtype=torch.bfloat16)
    tables = torch.randperm(blocks, device="cuda").view(_ROWS, -1)
    lengths = torch.full((_ROWS,), _CONTEXT, device="cuda")
    queries = torch.randn(_ROWS, heads, size, device="cuda", dtype=torch.bfloat16)
    taken_s = seconds(lambda: decode_attention(queries, keys, values, tables, lengths, _CONTEXT, scale=size**-0.5))
    return float(keys.nbytes + values.nbytes) / taken_s


def tokens_per_s(model: Model, load: Load) -> float:
    """Output tokens of a load, once a first run has compiled everything."""
    ready(model, load)()
    run = ready(model, load)
    torch.cuda.synchronize()
    begin_s = perf_counter()
    run()
    return sum(load.outputs) / (perf_counter() - begin_s)


def dummy(fields: Mapping[str, Any]) -> Model:
    """A model of that configuration with seeded random weights."""
    with TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(dict(fields)), encoding="utf-8")
        return load_model(
            Path(folder),
            device=torch.device("cuda"),
            load_format=LoadFormat.DUMMY,
            seed=_SEED,
            max_model_len=_MAX_MODEL_LEN,
        )


def load_of(num_requests: int, tokens: range, vocab: int) -> Load:
    """Seeded requests with so many tokens in and out, all at a time."""
    random = Random(_SEED)

    def length() -> int:
        return random.randint(tokens[0], tokens[-1])

    prompts = tuple(tuple(random.randrange(vocab) for _ in range(length())) for _ in range(num_requests))
    return Load(prompts, tuple(length() for _ in range(num_requests)), at_a_time=num_requests)


def document() -> Iterator[str]:
    """The whole page, line by line."""
    yield "# Speed of the real device on a GPU"
    yield ""
    name = torch.cuda.get_device_name()
    yield f"`python -m experiments.bench.real.gpu`: {name}, {machine()}, torch {torch.__version__}."
    copied = copy_bytes_per_s()
    yield f"A copy within its memory moves {copied / 1e9:,.0f} GB/s, read and written. Weights are bfloat16, random."
    yield ""
    yield "| what | measured | bar | share of the copy's rate |"
    yield "| --- | ---: | ---: | ---: |"
    read = attention_bytes_per_s()
    yield f"| decode attention, {_ROWS} x {_CONTEXT:,} | {read / 1e9:,.0f} GB/s | 60 % | {read / copied:.0%} |"
    model = dummy(LLAMA_3_8B)
    rate = tokens_per_s(model, load_of(1, range(256, 257), model.spec.vocab))
    share = rate * (model.weights.num_bytes - model.weights.embedding.nbytes) / copied
    yield f"| Llama-3-8B's shape, one stream | {rate:,.0f} tokens/s | 185 | {share:.0%} |"
    del model
    model = dummy(QWEN3_06B)
    rate = tokens_per_s(model, load_of(256, range(100, 1025), model.spec.vocab))
    share = rate / 256 * model.weights.num_bytes / copied
    yield f"| Qwen3-0.6B's shape, 256 requests | {rate:,.0f} tokens/s | 14,000 | {share:.0%}, weights only |"


def main() -> int:
    """Measure and write the page; 2 without a GPU."""
    if not torch.cuda.is_available():
        print("error: torch finds no GPU, which this measures; see experiments.bench.real for a CPU", file=sys.stderr)
        return 2
    text = []
    for line in document():
        print(line, flush=True)
        text.append(line)
    replace_file(GALLERY, ("\n".join(text) + "\n").encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
