"""Which token of an output ends it, by the rules in words of their own: each output is shown to every rule once."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from schedlab.core.stops import ends
from schedlab.request import Prompt, Request, SamplingParams

IDS = st.integers(0, 3)


class Words:
    """A stop matcher of words of tokens: true with the token that completes one of them."""

    def __init__(self, words: list[tuple[int, ...]]) -> None:
        self._words = words
        self.fed: list[int] = []

    def feed(self, token: int) -> bool:
        self.fed.append(token)
        return is_said(self._words, self.fed)


def is_said(words: list[tuple[int, ...]], output: list[int]) -> bool:
    return any(tuple(output[-len(word) :]) == word for word in words)


@given(
    output=st.lists(IDS, min_size=1, max_size=9),
    least=st.integers(0, 6),
    ignores_eos=st.booleans(),
    eos=st.sampled_from(((), (1,), (1, 3))),
    stop_ids=st.sampled_from(((), (2,))),
    words=st.lists(st.lists(IDS, min_size=1, max_size=3).map(tuple), max_size=2),
)
@settings(max_examples=300, deadline=None)
def test_an_output_ends_with_the_first_token_that_may_end_it(
    output: list[int],
    least: int,
    ignores_eos: bool,
    eos: tuple[int, ...],
    stop_ids: tuple[int, ...],
    words: list[tuple[int, ...]],
) -> None:
    """A word may begin among the tokens that cannot end the output yet."""
    ending = {*stop_ids} if ignores_eos else {*stop_ids, *eos}
    matcher = Words(words)
    params = SamplingParams(eos, stop_ids, min_tokens=least, ignore_eos=ignores_eos)
    request = Request(0, Prompt(1), 99, sampling=params, stop=matcher if words else None)
    for number, token in enumerate(output, 1):
        may_end = token in ending or is_said(words, output[:number])
        assert ends(request, token, number) is (number >= least and may_end), f"output {number} of {output}"
    assert matcher.fed == (output if words else [])
