"""Scenarios with stated results, from public bug reports and from what known engines promise, one file each."""

import pytest

pytest.register_assert_rewrite(
    *(f"tests.conformance.{name}" for name in ("expect_fates", "expect_steps", "laws", "recorder"))
)
