"""D10: what is refused when a request is made.

Source: inference-sim/inference-sim#209 <https://github.com/inference-sim/inference-sim/issues/209>.
"""

from __future__ import annotations

import pytest

from schedlab.errors import UsageError
from schedlab.request import Prompt, Request


@pytest.mark.parametrize("tokens", [0, -1])
def test_d10_a_prompt_without_tokens_is_refused(tokens: int) -> None:
    with pytest.raises(UsageError, match="request 3: the prompt has"):
        Request(3, Prompt(tokens), 4)


def test_d10_a_negative_limit_is_refused() -> None:
    with pytest.raises(UsageError, match="request 3: max_tokens is -1"):
        Request(3, Prompt(4), -1)
