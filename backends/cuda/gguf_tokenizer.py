"""A `tokenizer.json` from the vocabulary and merges that a GGUF file carries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

from schedlab.errors import UsageError

_CONTROL, _USER_DEFINED = 3, 4
# How the named pre-tokenisers cut a text before merges: their published patterns, as llama.cpp and tokenizer.json have.
_END = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_CUTS = {
    "llama-bpe": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|" + _END,
    "qwen2": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|" + _END,
}


def tokenizer_of(fields: Mapping[str, Any], where: str) -> Tokenizer:
    """The tokenizer that a GGUF file describes.

    Raises UsageError for other kinds than byte-level BPE with a known way to cut texts.
    """
    kind, cut = fields.get("tokenizer.ggml.model"), fields.get("tokenizer.ggml.pre")
    if kind != "gpt2" or cut not in ("gpt-2", "smollm", *_CUTS):
        raise UsageError(
            f"{where}: its tokenizer is of kind {kind!r} with pre-tokeniser {cut!r}, which is not known; "
            "give the model's Hugging Face folder instead"
        )
    tokens = fields["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ")) for merge in fields["tokenizer.ggml.merges"]]
    vocab = {token: number for number, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocab, merges, ignore_merges=cut == "llama-bpe"))
    tokenizer.pre_tokenizer = _pre_tokenizer(cut)
    tokenizer.decoder = decoders.ByteLevel()
    kinds = fields.get("tokenizer.ggml.token_type", [])
    named = [(token, kind) for token, kind in zip(tokens, kinds, strict=False) if kind in (_CONTROL, _USER_DEFINED)]
    for token, kind in named:
        added = AddedToken(token, special=kind == _CONTROL, normalized=False)
        (tokenizer.add_special_tokens if kind == _CONTROL else tokenizer.add_tokens)([added])
    return tokenizer


def _pre_tokenizer(cut: str) -> pre_tokenizers.PreTokenizer:
    if cut in _CUTS:
        split = pre_tokenizers.Split(Regex(_CUTS[cut]), "isolated")
        return pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    if cut == "smollm":
        return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level])
    return byte_level
