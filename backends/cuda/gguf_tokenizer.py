"""A `tokenizer.json`, and the facts that lie beside one, from what a GGUF file says of its tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from schedlab.errors import UsageError

_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _BYTE = 1, 2, 3, 4, 6
_SPACE = "\u2581"
_LONGEST_TOKEN = 512
# How the named pre-tokenisers cut a text before merges: their published patterns, as llama.cpp and tokenizer.json have.
_END = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|" + _END
_TEKKEN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|"
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_CUTS = {
    "llama-bpe": _LLAMA3,
    "llama3": _LLAMA3,
    "llama-v3": _LLAMA3,
    "tekken": _TEKKEN,
    "qwen2": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|" + _END,
}
# These take whole tokens before merges, and begin a text with the first token, unless the file says otherwise.
_WHOLE_TOKENS_FIRST = ("llama-bpe", "llama3", "llama-v3", "tekken")
_NAMED = ("bos", "eos", "unknown", "padding")
_ENDS = ("eos", "eot", "eom")
# Control tokens that end an answer in chats. Many files name only one of them.
_END_WORDS = ("<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", "<end_of_turn>")


def tokenizer_of(fields: Mapping[str, Any], where: str) -> Tokenizer:
    """The tokenizer that a GGUF file describes.

    Raises UsageError for other kinds than SentencePiece's BPE and byte-level BPE with a known way to cut texts.
    """
    kind, cut = fields.get("tokenizer.ggml.model"), fields.get("tokenizer.ggml.pre")
    tokens = _list(fields, "tokens", str, where)
    types = (
        _list(fields, "token_type", int, where) if "tokenizer.ggml.token_type" in fields else [_NORMAL] * len(tokens)
    )
    if len(types) != len(tokens) or len(set(tokens)) != len(tokens):
        raise UsageError(f"{where}: its {len(tokens)} tokens have {len(types)} types, or some are there twice")
    if kind == "gpt2" and cut in ("gpt-2", "smollm", *_CUTS):
        tokenizer = _byte_level(tokens, _list(fields, "merges", str, where), cut, where)
    elif kind == "llama":
        tokenizer = _sentence_piece(fields, tokens, types, where)
    else:
        raise UsageError(
            f"{where}: its tokenizer is of kind {kind!r} with pre-tokeniser {cut!r}, which is not known; "
            "give the model's Hugging Face folder instead"
        )
    for token, its_type in zip(tokens, types, strict=True):
        if its_type in (_CONTROL, _USER_DEFINED):
            is_special = its_type == _CONTROL
            added = AddedToken(token, special=is_special, normalized=not is_special and _SPACE in token)
            (tokenizer.add_special_tokens if is_special else tokenizer.add_tokens)([added])
    _add_ends(tokenizer, fields, tokens, begins=kind == "llama" or cut in _WHOLE_TOKENS_FIRST)
    return tokenizer


def special_tokens(fields: Mapping[str, Any]) -> dict[str, Any]:
    """A `generation_config.json` with the tokens that begin, end and pad; for fields whose tokenizer is known."""
    tokens, types = fields["tokenizer.ggml.tokens"], fields["tokenizer.ggml.token_type"]
    ends = [_id(fields, name) for name in _ENDS]
    ends += [
        number
        for number, (token, its_type) in enumerate(zip(tokens, types, strict=True))
        if token in _END_WORDS and its_type == _CONTROL
    ]
    found = {
        "bos_token_id": _id(fields, "bos"),
        "eos_token_id": list(dict.fromkeys(end for end in ends if end is not None)) or None,
        "pad_token_id": _id(fields, "padding"),
    }
    return {name: value for name, value in found.items() if value is not None}


def tokenizer_config(fields: Mapping[str, Any]) -> dict[str, Any]:
    """A `tokenizer_config.json` with the words of special tokens and the chat template; as `special_tokens`."""
    tokens, template = fields["tokenizer.ggml.tokens"], fields.get("tokenizer.chat_template")
    numbers = {name: _id(fields, name) for name in _NAMED}
    short = {"unknown": "unk", "padding": "pad"}
    words = {f"{short.get(name, name)}_token": tokens[at] for name, at in numbers.items() if at is not None}
    return {**words, **({"chat_template": template} if isinstance(template, str) else {})}


def _byte_level(tokens: list[str], merges: list[str], cut: str, where: str) -> Tokenizer:
    pairs = [(left, right) for left, _, right in (merge.partition(" ") for merge in merges)]
    vocab = {token: number for number, token in enumerate(tokens)}
    try:
        tokenizer = Tokenizer(models.BPE(vocab, pairs, ignore_merges=cut in _WHOLE_TOKENS_FIRST))
    except Exception as error:
        raise UsageError(f"{where}: its merges do not fit its tokens: {error}") from None
    if cut == "qwen2":
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = _pre_tokenizer(cut)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _pre_tokenizer(cut: str) -> pre_tokenizers.PreTokenizer:
    if cut in _CUTS:
        split = pre_tokenizers.Split(Regex(_CUTS[cut]), "isolated")
        return pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    if cut == "smollm":
        return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level])
    return byte_level


def _sentence_piece(fields: Mapping[str, Any], tokens: list[str], types: list[int], where: str) -> Tokenizer:
    """SentencePiece joins the neighbours whose joint token has the highest score: merges, ranked by that."""
    scores = _list(fields, "scores", float, where)
    if len(scores) != len(tokens):
        raise UsageError(f"{where}: has {len(tokens)} tokens and {len(scores)} scores")
    unknown = next((token for token, its_type in zip(tokens, types, strict=True) if its_type == _UNKNOWN), None)
    vocab = {token: number for number, token in enumerate(tokens)}
    merges = _merges(tokens, types, scores, where)
    tokenizer = Tokenizer(models.BPE(vocab, merges, unk_token=unknown, fuse_unk=True, byte_fallback=_BYTE in types))
    is_prefixed = bool(fields.get("tokenizer.ggml.add_space_prefix", True))
    steps: list[normalizers.Normalizer] = [normalizers.Prepend(_SPACE)] if is_prefixed else []
    tokenizer.normalizer = normalizers.Sequence([*steps, normalizers.Replace(" ", _SPACE)])
    back: list[decoders.Decoder] = [decoders.Replace(_SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    tokenizer.decoder = decoders.Sequence([*back, decoders.Strip(" ", 1, 0)] if is_prefixed else back)
    return tokenizer


def _merges(tokens: list[str], types: list[int], scores: list[float], where: str) -> list[tuple[str, str]]:
    """Every way to make a token of two others, those with the highest score first, then by the parts' numbers."""
    parts = {token: number for number, token in enumerate(tokens) if types[number] == _NORMAL}
    ranked = []
    for token, number in parts.items():
        if len(token) > _LONGEST_TOKEN:
            raise UsageError(f"{where}: has a token of {len(token)} characters; {_LONGEST_TOKEN} are the most")
        for at in range(1, len(token)):
            left, right = parts.get(token[:at]), parts.get(token[at:])
            if left is not None and right is not None:
                ranked.append((-scores[number], left, right))
    return [(tokens[left], tokens[right]) for _, left, right in sorted(ranked)]


def _add_ends(tokenizer: Tokenizer, fields: Mapping[str, Any], tokens: list[str], *, begins: bool) -> None:
    """Put the first token before a text and the last one behind it, where the file or its kind wants that."""
    first = [_id(fields, "bos")] if fields.get("tokenizer.ggml.add_bos_token", begins) else []
    last = [_id(fields, "eos")] if fields.get("tokenizer.ggml.add_eos_token", False) else []
    before, behind = ([tokens[number] for number in ids if number is not None] for ids in (first, last))
    if before or behind:
        special = {token: tokens.index(token) for token in (*before, *behind)}
        tokenizer.post_processor = processors.TemplateProcessing(
            single=[*before, "$A", *behind], special_tokens=list(special.items())
        )


def _list(fields: Mapping[str, Any], name: str, kind: type, where: str) -> list[Any]:
    values = fields.get(f"tokenizer.ggml.{name}")
    if not isinstance(values, list) or not all(isinstance(value, kind) for value in values):
        raise UsageError(f"{where}: field 'tokenizer.ggml.{name}' is missing or no list of {kind.__name__}")
    return values


def _id(fields: Mapping[str, Any], name: str) -> int | None:
    """The number of a special token that the file has."""
    number = fields.get(f"tokenizer.ggml.{name}_token_id")
    return number if isinstance(number, int) and 0 <= number < len(fields["tokenizer.ggml.tokens"]) else None
