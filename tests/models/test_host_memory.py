"""Memory in huge pages holds what was put there."""

from __future__ import annotations

from tests.torch_needed import torch  # isort: skip

from backends.cuda.host_memory import HugePages, want_huge_pages


def test_copies_are_contiguous_and_apart() -> None:
    """More than a chunk in all, and one that is larger than a chunk."""
    memory = HugePages()
    originals = [torch.randn(3, 5).t(), torch.arange(7), torch.randn(9 << 20).half(), torch.randn(17 << 20)]
    copies = [memory.copy(each) for each in originals]
    for copy, original in zip(copies, originals, strict=True):
        assert copy.is_contiguous()
        assert torch.equal(copy, original)
    copies[1].zero_()
    assert torch.equal(copies[0], originals[0])


def test_asking_changes_nothing() -> None:
    for size in (1, 5 << 20):
        tensor = torch.empty(size)
        assert want_huge_pages(tensor) is tensor
        assert float(tensor.fill_(2).sum()) == 2 * size
