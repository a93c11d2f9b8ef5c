"""Modules that only the extra `serve` installs; a test that imports this first is skipped without them."""

from __future__ import annotations

import pytest

_REASON = "needs the extra serve: make test-models installs it"

torch = pytest.importorskip("torch", reason=_REASON)
pytest.importorskip("safetensors", reason=_REASON)
