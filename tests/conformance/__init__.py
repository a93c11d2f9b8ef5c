"""Scenarios with stated results, from public bug reports and from what known engines promise, one file each."""

import pytest

pytest.register_assert_rewrite(
    "tests.conformance.contents", "tests.conformance.expect", "tests.conformance.laws", "tests.conformance.recorder"
)
