"""Modules that only the extra `serve` and its clients install; a test that imports this first is skipped without."""

from __future__ import annotations

import pytest

_REASON = "needs the extras serve and clients: make test-models installs them"

for _name in ("fastapi", "uvicorn", "prometheus_client", "openai", "httpx"):
    pytest.importorskip(_name, reason=_REASON)
