"""Characters that are split over tokens, and stop strings across their borders."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest

from schedlab.serve.text import NO_STOPS, OutputText, StopRule, TextStops


class Pieces:
    """A tokenizer whose tokens are given byte strings; the last is special."""

    vocab = 100
    eos_token_ids = (99,)
    longest_token_bytes = 9

    def __init__(self, *pieces: bytes) -> None:
        self.pieces = pieces

    def token_bytes(self, token: int) -> bytes:
        return self.pieces[token]

    def is_special(self, token: int) -> bool:
        return self.pieces[token] == b"<special>"

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        raise NotImplementedError

    def chat_prompt(self, messages: object) -> list[int]:
        raise NotImplementedError


def deltas(pieces: list[bytes], rule: StopRule = NO_STOPS) -> tuple[list[str], str | None, int]:
    """What is sent after each token and at the end, the stop that matched, and the tokens until it did."""
    tokenizer = Pieces(*pieces)
    text, stops = OutputText(tokenizer, rule), TextStops(tokenizer, rule, skip_special=True)
    sent, used = [], 0
    for token in range(len(pieces)):
        used += 1
        text.feed(token)
        sent.append(text.take())
        if stops.feed(token):
            break
    assert (text.matched is not None) == (used < len(pieces) or stops._text.matched is not None)
    return [*sent, text.take_rest()], text.matched, used


@pytest.mark.parametrize("character", ["é", "日", "😀"])
def test_a_character_split_at_any_byte_is_whole_or_not_there(character: str) -> None:
    encoded = f"a{character} b{character}".encode()
    for cuts in combinations(range(1, len(encoded)), 3):
        borders = [0, *cuts, len(encoded)]
        sent, _, _ = deltas([encoded[a:b] for a, b in pairwise(borders)])
        assert "".join(sent) == encoded.decode()
        assert not any("\ufffd" in one for one in sent)


def test_bytes_that_are_no_text_are_replaced_and_what_follows_is_kept() -> None:
    sent, _, _ = deltas(["日".encode()[:2], b" x", "日".encode()[:1]])
    assert "".join(sent) == (b"\xe6\x97 x\xe6").decode(errors="replace")


def test_a_stop_string_over_three_tokens_is_never_sent_in_part() -> None:
    sent, matched, used = deltas([b" A", b"B", b"C", b"D", b"E", b"F"], StopRule(("CDE",)))
    assert (sent[:2], "".join(sent), matched, used) == ([" A", "B"], " AB", "CDE", 5)


def test_what_only_began_like_a_stop_string_is_sent_after_all() -> None:
    sent, matched, _ = deltas([b"C", b"D", b"x", b"C"], StopRule(("CDE",)))
    assert sent == ["", "", "CDx", "", "C"] and matched is None


def test_of_two_stop_strings_the_one_that_is_complete_first_counts() -> None:
    sent, matched, used = deltas([b"aC", b"D", b"E"], StopRule(("CDE", "CD")))
    assert ("".join(sent), matched, used) == ("a", "CD", 2)


def test_the_stop_string_is_kept_where_it_is_wanted() -> None:
    sent, _, _ = deltas([b"aC", b"Dzz"], StopRule(("CD",), include=True))
    assert "".join(sent) == "aCD"


def test_stop_strings_count_from_min_tokens_on() -> None:
    sent, matched, used = deltas([b"CD", b"C", b"D", b"x", b"CD"], StopRule(("CD",), min_tokens=4))
    assert ("".join(sent), matched, used) == ("CDCDx", "CD", 5)


def test_special_tokens_are_no_text() -> None:
    sent, _, _ = deltas([b"a", b"<special>", b"b"])
    assert "".join(sent) == "ab"
