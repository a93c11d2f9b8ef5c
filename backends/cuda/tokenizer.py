"""A model's tokenizer and chat template, from the files beside its weights."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from backends.cuda.chat_template import ChatTemplate
from backends.cuda.files import read_object, read_text
from backends.cuda.generation import end_tokens
from schedlab.errors import UsageError

_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_SPACE = "\u2581"
_TRIAL_PATIENCE_S = 120.0
_TRIAL = """
import sys
from tokenizers import Tokenizer
try:
    Tokenizer.from_file(sys.argv[1]).encode("A text: 1\\n")
except Exception as error:
    print(error)
    sys.exit(1)
"""
_WORDS = ("bos_token", "eos_token", "pad_token", "unk_token")
# Bytes that byte-level BPE writes as themselves; the others are letters from 256 on, in order (GPT-2's published map).
_PLAIN = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]


class ModelTokenizer:
    """Tokens of a Hugging Face folder. `vocab` is the model's, which may be larger than the tokenizer's.

    Raises UsageError for a folder without a tokenizer, one that cannot be read, or one that is of another model.
    """

    def __init__(self, folder: Path, vocab: int) -> None:
        path = folder / "tokenizer.json"
        if not path.exists():
            raise UsageError(f"{path}: does not exist; a server needs the model's tokenizer.json")
        described = read_object(path)
        _try(path)
        self._tokenizer = Tokenizer.from_file(str(path))
        self.vocab = vocab
        added = described.get("added_tokens", [])
        # Added words may lie beyond the model's embedding: text models of a multi-modal family have such.
        own = set(self._tokenizer.get_vocab(with_added_tokens=False).values()) - {one["id"] for one in added}
        if max(own, default=0) >= vocab:
            raise UsageError(f"{path}: has tokens up to {max(own)}, but the model {vocab}: they do not belong together")
        self.eos_token_ids = end_tokens(folder)
        self._special = {one["id"] for one in added if one.get("special")}
        self._bytes = _bytes_of_tokens(self._tokenizer, described)
        self.longest_token_bytes = max(map(len, self._bytes.values()), default=1)
        self._template = _template(folder)

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """Token ids of a text."""
        return list(self._tokenizer.encode(text, add_special_tokens=add_special_tokens).ids)

    def token_bytes(self, token: int) -> bytes:
        """What the token adds to a text; nothing for an id that the tokenizer does not have."""
        return self._bytes.get(token, b"")

    def is_special(self, token: int) -> bool:
        return token in self._special

    def chat_prompt(self, messages: Sequence[Mapping[str, Any]]) -> list[int]:
        """Token ids of a chat by the model's own template.

        Raises UsageError where the model has none, or it refuses the chat.
        """
        if self._template is None:
            raise UsageError("the model has no chat template; use /v1/completions")
        return self.encode(self._template.render(messages), add_special_tokens=False)


def _try(path: Path) -> None:
    """Use it in another process first: at some damaged files the library ends the process that reads them.

    Raises UsageError where it fails.
    """
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-c", _TRIAL, str(path)], capture_output=True, timeout=_TRIAL_PATIENCE_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise UsageError(f"{path}: is no tokenizer: it cannot be read within {_TRIAL_PATIENCE_S:g} s") from None
    if done.returncode:
        said = done.stdout.decode(errors="replace").strip()
        raise UsageError(f"{path}: is no tokenizer: {said or 'the library that reads it breaks down'}")


def _bytes_of_tokens(tokenizer: Tokenizer, described: Mapping[str, Any]) -> dict[int, bytes]:
    added = {one["id"]: one["content"].encode() for one in described.get("added_tokens", [])}
    is_byte_level = "ByteLevel" in json.dumps([described.get("decoder"), described.get("pre_tokenizer")])
    letters = _byte_letters()
    found = {}
    for word, number in tokenizer.get_vocab(with_added_tokens=True).items():
        if is_byte_level and number in added:
            found[number] = added[number]
        elif is_byte_level:
            found[number] = b"".join(bytes((letters[one],)) if one in letters else one.encode() for one in word)
        elif match := _BYTE_TOKEN.fullmatch(word):
            found[number] = bytes((int(match[1], 16),))
        else:
            found[number] = word.replace(_SPACE, " ").encode()
    return found


def _byte_letters() -> dict[str, int]:
    others = [byte for byte in range(256) if byte not in _PLAIN]
    return {chr(byte): byte for byte in _PLAIN} | {chr(256 + at): byte for at, byte in enumerate(others)}


def _template(folder: Path) -> ChatTemplate | None:
    """The chat template; None where the model has none."""
    settings_path, path = folder / "tokenizer_config.json", folder / "chat_template.jinja"
    settings = read_object(settings_path) if settings_path.exists() else {}
    source = read_text(path) if path.exists() else settings.get("chat_template")
    if isinstance(source, list):
        source = next(
            (one.get("template") for one in source if isinstance(one, dict) and one.get("name") == "default"), None
        )
    if not source:
        return None
    if not isinstance(source, str):
        raise UsageError(f"{settings_path}: field 'chat_template': must be a text, got {type(source).__name__}")
    words = {name: _word(settings.get(name)) for name in _WORDS}
    return ChatTemplate(source, words, str(path if path.exists() else settings_path))


def _word(value: Any) -> str:
    """A special token as `tokenizer_config.json` has it: a text, or an object with one."""
    return str(value.get("content", "")) if isinstance(value, Mapping) else str(value or "")
