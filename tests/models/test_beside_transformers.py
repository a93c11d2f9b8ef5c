"""Our package `kernels` has the name of a library that transformers looks for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import tests.models.tiny  # noqa: F401

ROOT = Path(__file__).parent.parent.parent
BOTH_ORDERS = [
    "import kernels.attention, backends.cuda.device, transformers",
    "import transformers, kernels.attention, backends.cuda.device",
]


@pytest.mark.parametrize("imports", BOTH_ORDERS)
def test_transformers_works_beside_our_kernels(imports: str) -> None:
    code = f"""
{imports}
from pathlib import Path
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.utils import is_kernels_available
import kernels, torch
assert Path(kernels.__file__).parent.parent == Path({str(ROOT)!r})
assert not is_kernels_available()
model = LlamaForCausalLM(LlamaConfig(vocab_size=9, hidden_size=8, intermediate_size=8, num_hidden_layers=1,
                                     num_attention_heads=1, num_key_value_heads=1))
assert model(torch.tensor([[1, 2]])).logits.shape == (1, 2, 9)
"""
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=120)


def test_the_scheduler_needs_no_torch() -> None:
    code = "import sys, schedlab, schedlab.driver, schedlab.mailbox; assert not {'torch', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=60)
