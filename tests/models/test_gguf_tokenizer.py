"""Tokenizers that GGUF files describe cut texts as the models were trained to have them cut."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.torch_needed import torch  # isort: skip

from backends.cuda.gguf_tokenizer import special_tokens, tokenizer_config, tokenizer_of
from schedlab.errors import UsageError
from tests.models.gguf_files import byte_level

assert torch
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6
SPACE = "\u2581"


def sentence_piece(**changes: Any) -> dict[str, Any]:
    """Fields of a small vocabulary: bytes, letters, and words made of them in an order that is not that of length."""
    words = ["ab", "bc", "abc", f"{SPACE}a", f"{SPACE}ab", "cc", "ca", "bca", SPACE * 2]
    pieces = [*(f"<0x{byte:02X}>" for byte in range(256)), SPACE, "a", "b", "c", *words]
    tokens = ["<unk>", "<s>", "</s>", *pieces, "<turn>", "tool"]
    types = [UNKNOWN, CONTROL, CONTROL, *[BYTE] * 256, *[NORMAL] * (len(pieces) - 256), CONTROL, USER_DEFINED]
    order = random.Random(3).sample(range(len(words)), len(words))
    scores = [0.0] * (3 + 256) + [-1000.0] * 4 + [-float(place) for place in order] + [0.0, 0.0]
    named = {"model": "llama", "tokens": tokens, "token_type": types, "scores": scores}
    named |= {"bos_token_id": 1, "eos_token_id": 2, "unknown_token_id": 0, **changes}
    return {f"tokenizer.ggml.{name}": value for name, value in named.items()}


def joined(text: str, fields: dict[str, Any]) -> list[str]:
    """SentencePiece's rule, done slowly: join the neighbours whose joint piece scores best, the leftmost of equals."""
    scores = {
        token: score
        for token, score, kind in zip(
            fields["tokenizer.ggml.tokens"],
            fields["tokenizer.ggml.scores"],
            fields["tokenizer.ggml.token_type"],
            strict=True,
        )
        if kind == NORMAL
    }
    pieces = list(text)
    while True:
        pairs = [
            (-scores[pieces[at] + pieces[at + 1]], at)
            for at in range(len(pieces) - 1)
            if pieces[at] + pieces[at + 1] in scores
        ]
        if not pairs:
            return pieces
        _, at = min(pairs)
        pieces[at : at + 2] = [pieces[at] + pieces[at + 1]]


def test_a_sentence_piece_vocabulary_joins_by_score() -> None:
    fields = sentence_piece()
    tokenizer, rng = tokenizer_of(fields, "file"), random.Random(5)
    for _ in range(300):
        text = "".join(rng.choice("abc ") for _ in range(rng.randrange(1, 20)))
        wanted = joined(SPACE + text.replace(" ", SPACE), fields)
        assert tokenizer.encode(text, add_special_tokens=False).tokens == wanted
        assert tokenizer.decode(tokenizer.encode(text).ids) == text


def test_a_sentence_piece_vocabulary_writes_other_characters_as_bytes() -> None:
    tokenizer = tokenizer_of(sentence_piece(), "file")
    assert tokenizer.encode("é", add_special_tokens=False).tokens == [SPACE, "<0xC3>", "<0xA9>"]
    assert tokenizer.decode(tokenizer.encode("aé\n").ids) == "aé\n"


def test_a_text_begins_and_ends_as_the_file_says() -> None:
    def tokens(**changes: Any) -> list[str]:
        return tokenizer_of(sentence_piece(add_space_prefix=False, **changes), "file").encode("ab<turn>tool").tokens

    assert tokens() == ["<s>", "ab", "<turn>", "tool"]
    assert tokens(add_bos_token=False) == ["ab", "<turn>", "tool"]
    assert tokens(add_eos_token=True) == ["<s>", "ab", "<turn>", "tool", "</s>"]


def test_llama_3_begins_with_its_first_token_and_qwen_does_not() -> None:
    assert tokenizer_of(byte_level(pre="llama-bpe"), "file").encode("hello").tokens == ["<|begin|>", "hel", "l", "o"]
    assert tokenizer_of(byte_level(pre="qwen2"), "file").encode("hello").tokens == ["hel", "l", "o"]


def test_all_tokens_that_end_an_answer_are_found() -> None:
    """The one named as the end, the one named as the end of a turn, and a control token known by its word."""
    fields = byte_level(eos_token_id=5, eot_token_id=6)
    assert special_tokens(fields) == {"bos_token_id": 0, "eos_token_id": [5, 6, 1]}


def test_words_of_special_tokens_reach_the_chat_template() -> None:
    fields = {**sentence_piece(), "tokenizer.chat_template": "{{ bos_token }}"}
    assert tokenizer_config(fields) == {
        "bos_token": "<s>",
        "eos_token": "</s>",
        "unk_token": "<unk>",
        "chat_template": "{{ bos_token }}",
    }


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (byte_level(model="bert"), "its tokenizer is of kind 'bert'"),
        (byte_level(pre="other"), "with pre-tokeniser 'other', which is not known"),
        (byte_level(tokens=7), "'tokenizer.ggml.tokens' is missing or no list of str"),
        (byte_level(tokens=["a"]), "its 1 tokens have 199 types"),
        (byte_level(merges=["h zz"]), "its merges do not fit its tokens"),
        (sentence_piece(scores=[1.0]), "274 tokens and 1 scores"),
    ],
)
def test_a_tokenizer_that_cannot_be_made_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=r"^file: ") as caught:
        tokenizer_of(fields, "file")
    assert message in str(caught.value)
