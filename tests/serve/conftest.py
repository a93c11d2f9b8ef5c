"""One server for the tests that only ask."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="session")
def server() -> Iterator[Any]:
    from tests.serve.lab import QUICK, Server

    running = Server("--device", "sim", *QUICK, "--policy", "priority", "--set", "prefix_cache=true")
    yield running
    running.close()
