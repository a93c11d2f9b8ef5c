"""Damaged and hostile model files end `serve` with one line that names the file and what is wrong, and exit code 2."""

from __future__ import annotations

import json
import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tests.serve.needed  # isort: skip
from tests.torch_needed import torch  # isort: skip

from safetensors.torch import load_file, save_file

from backends.cuda.gguf_tokenizer import tokenizer_of
from schedlab.serve import server
from tests.models.gguf_files import Kind, byte_level, write_gguf
from tests.models.test_gguf_tokenizer import sentence_piece
from tests.models.tiny import saved
from tests.unit.replay_helpers import schedlab

assert tests.serve.needed
MonkeyPatch = pytest.MonkeyPatch
Capture = pytest.CaptureFixture[str]
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
Refused = Callable[[Path], str]


@pytest.fixture
def refused(monkeypatch: MonkeyPatch, capsys: Capture) -> Refused:
    """Serve it; the one line that says why not."""

    def run_server(*given: object) -> None:
        raise AssertionError("it was served")

    monkeypatch.setattr(server, "run_server", run_server)

    def serve(path: Path, *options: object) -> str:
        capsys.readouterr()
        ended = schedlab(monkeypatch, capsys, "serve", path, "--device", "cpu", "--port", 0, *options)
        assert ended.code == 2
        assert ended.err.startswith("schedlab: error: ") and ended.err.count("\n") == 1
        return ended.err

    return serve


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that can be served."""
    made = saved("qwen2", tmp_path_factory.mktemp("model"), tie_word_embeddings=False)
    tokenizer_of(byte_level(), "").save(str(made / "tokenizer.json"))
    return made


@pytest.fixture
def folder(model: Path, tmp_path: Path) -> Path:
    """A copy of it, to damage."""
    return shutil.copytree(model, tmp_path / "tiny")


def rewrite(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    values = json.loads(path.read_text())
    change(values)
    path.write_text(json.dumps(values))


def pieces(folder: Path) -> tuple[dict[str, Any], bytes]:
    """Header and data of the weights."""
    content = (folder / WEIGHTS).read_bytes()
    (length,) = struct.unpack_from("<Q", content)
    return json.loads(content[8 : 8 + length]), content[8 + length :]


def put(folder: Path, header: dict[str, Any], data: bytes) -> None:
    text = json.dumps(header).encode()
    (folder / WEIGHTS).write_bytes(struct.pack("<Q", len(text)) + text + data)


@pytest.mark.parametrize("size", [0, 7, 8, 500, -5])
def test_weights_cut_off_anywhere(folder: Path, refused: Refused, size: int) -> None:
    content = (folder / WEIGHTS).read_bytes()
    (folder / WEIGHTS).write_bytes(content[:size])
    assert f"{folder / WEIGHTS}: is missing, truncated or no safetensors file" in refused(folder)


@pytest.mark.parametrize("length", [1 << 60, (1 << 64) - 1, 0])
def test_a_header_that_claims_another_length(folder: Path, refused: Refused, length: int) -> None:
    content = (folder / WEIGHTS).read_bytes()
    (folder / WEIGHTS).write_bytes(struct.pack("<Q", length) + content[8:])
    assert f"{folder / WEIGHTS}: is missing, truncated or no safetensors file" in refused(folder)


@pytest.mark.parametrize(
    "entry",
    [
        {"data_offsets": [0, 1 << 50]},
        {"data_offsets": [9, 3]},
        {"data_offsets": [0, 8]},
        {"shape": [1 << 40, 1 << 40]},
        {"dtype": "F33"},
    ],
)
def test_an_entry_of_the_header_that_cannot_be(folder: Path, refused: Refused, entry: dict[str, Any]) -> None:
    header, data = pieces(folder)
    header["model.norm.weight"].update(entry)
    put(folder, header, data)
    assert f"{folder / WEIGHTS}: is missing, truncated or no safetensors file" in refused(folder)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_weights_that_are_no_numbers(folder: Path, refused: Refused, value: float) -> None:
    tensors = load_file(folder / WEIGHTS)
    tensors["model.layers.1.mlp.down_proj.weight"][3, 4] = value
    save_file(tensors, folder / WEIGHTS)
    message = refused(folder)
    assert f"{folder}: tensor 'model.layers.1.mlp.down_proj.weight' has values that are NaN or infinite" in message


def test_weights_too_large_for_the_type_that_is_asked_for(folder: Path, refused: Refused) -> None:
    tensors = load_file(folder / WEIGHTS)
    tensors["model.norm.weight"][0] = tensors["model.embed_tokens.weight"][0, 0] = 1e6
    save_file(tensors, folder / WEIGHTS)
    assert "'model.embed_tokens.weight' has values that are NaN or infinite as float16" in refused(
        folder, "--dtype", "float16"
    )


@pytest.mark.parametrize("place", ["../other.safetensors", "/etc/passwd", "a/b.safetensors", "weights.bin", 7])
def test_an_index_that_leads_elsewhere(folder: Path, refused: Refused, place: object) -> None:
    (folder / INDEX).write_text(json.dumps({"weight_map": {"model.norm.weight": place}}))
    message = refused(folder)
    assert f"{folder / INDEX}: places tensor 'model.norm.weight' in {place!r}, which is no safetensors file" in message


def test_an_index_without_its_files_or_sense(folder: Path, refused: Refused) -> None:
    (folder / INDEX).write_text(json.dumps({"weight_map": {"model.norm.weight": "gone.safetensors"}}))
    assert f"{folder}/gone.safetensors: is missing" in refused(folder)
    (folder / INDEX).write_text(json.dumps({"weight_map": {"model.other.weight": WEIGHTS}}))
    assert f"{folder / WEIGHTS}: lacks tensor 'model.other.weight', which {INDEX} places there" in refused(folder)
    (folder / INDEX).write_text("{}")
    assert f"{folder / INDEX}: field 'weight_map' is missing" in refused(folder)


def test_a_tensor_in_two_files(folder: Path, refused: Refused) -> None:
    save_file({"model.norm.weight": torch.ones(48)}, folder / "another.safetensors")
    message = refused(folder)
    assert f"has tensor 'model.norm.weight', and so has {folder / 'another.safetensors'}" in message


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_size": 10**12}, "field 'hidden_size': must be a whole number in 1..1000000"),
        ({"hidden_size": "48"}, "field 'hidden_size': must be a whole number"),
        ({"num_hidden_layers": -3}, "field 'num_hidden_layers': must be a whole number"),
        ({"rms_norm_eps": 1e308}, "field 'rms_norm_eps': must be a positive number"),
        ({"tie_word_embeddings": "no"}, "field 'tie_word_embeddings': must be true or false"),
        (
            {"layer_types": ["odd"] * 3, "use_sliding_window": True, "sliding_window": 9},
            "field 'layer_types': 'odd' is not known",
        ),
        ({"rope_parameters": {"rope_theta": 10**400}}, "field 'rope_scaling': must be a positive number"),
        ({"auto_map": {"AutoModel": "modeling.Tiny"}}, "field 'auto_map': the model has code of its own"),
        ({"shared_expert_intermediate_size": 4}, "shared experts are not computed"),
        ({"model_type": "qwen2_moe"}, "field 'model_type': 'qwen2_moe' is not known"),
        ({"quantization_config": {"quant_method": "fp8"}}, "quantised by the method 'fp8' are not read"),
        ({"vocab_size": 10**7, "hidden_size": 10**6}, "the weights take"),
        ({"max_position_embeddings": 10**8}, "Choose a smaller model, dtype or max_model_len"),
    ],
)
def test_a_config_with_values_that_cannot_be(
    folder: Path, refused: Refused, changes: dict[str, Any], message: str
) -> None:
    rewrite(folder / "config.json", lambda values: values.update(changes))
    found = refused(folder)
    assert message in found and str(folder) in found


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"[" * 100_000, b"\xff\xfe{}"])
@pytest.mark.parametrize("name", ["config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"])
def test_a_file_that_is_no_json_object(folder: Path, refused: Refused, name: str, content: bytes) -> None:
    (folder / name).write_bytes(content)
    assert f"{folder / name}: " in refused(folder)


def test_a_tokenizer_that_is_absent_or_of_another_model(folder: Path, refused: Refused) -> None:
    rewrite(folder / "tokenizer.json", lambda values: values["model"]["vocab"].update({"more": 199}))
    assert "tokenizer.json: has tokens up to 199, but the model 199" in refused(folder)
    (folder / "tokenizer.json").write_text('{"model": {"type": "BPE"}}')
    assert "tokenizer.json: is no tokenizer" in refused(folder)
    (folder / "tokenizer.json").unlink()
    assert f"{folder}: has no tokenizer.json; the folder" in refused(folder)


@pytest.mark.parametrize(
    ("fields", "part", "changes"),
    [
        (sentence_piece(), "model", {"continuing_subword_prefix": "x"}),
        (byte_level(pre="llama-bpe"), "post_processor", {"special_tokens": {}}),
    ],
)
def test_a_tokenizer_at_which_its_library_breaks_down(
    folder: Path, refused: Refused, fields: dict[str, Any], part: str, changes: dict[str, Any]
) -> None:
    tokenizer_of(fields, "").save(str(folder / "tokenizer.json"))
    rewrite(folder / "tokenizer.json", lambda values: values[part].update(changes))
    assert f"{folder / 'tokenizer.json'}: is no tokenizer" in refused(folder)


@pytest.mark.parametrize("ends", ["x", [1, "x"], -1, 1.5, True, {"a": 1}])
def test_end_tokens_that_are_none(folder: Path, refused: Refused, ends: object) -> None:
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": ends}))
    assert "generation_config.json: field 'eos_token_id': must be a token id or a list of them" in refused(folder)


@pytest.mark.parametrize(
    ("template", "message"),
    [("{% for", "cannot be read"), (7, "field 'chat_template': must be a text"), ([{"name": "x"}, 3], None)],
)
def test_a_chat_template_that_is_none(folder: Path, refused: Refused, template: object, message: str | None) -> None:
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}))
    if message is None:
        rewrite(folder / "config.json", lambda values: values.update(num_hidden_layers=2))
        message = "does not use"
    assert message in refused(folder)


def test_what_is_no_file_or_folder(folder: Path, refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert f"{tmp_path}/empty: has no config.json" in refused(tmp_path / "empty")
    (tmp_path / "file").write_text("x")
    assert f"{tmp_path}/file: is no folder of a Hugging Face model and no .gguf file" in refused(tmp_path / "file")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert f"{tmp_path}/loop: is no folder" in refused(tmp_path / "loop")
    (tmp_path / "loop.gguf").symlink_to(tmp_path / "loop.gguf")
    assert f"{tmp_path}/loop.gguf: cannot be read: Too many levels" in refused(tmp_path / "loop.gguf")


def test_pipes_devices_and_loops_in_a_folder_are_not_waited_for(folder: Path, refused: Refused) -> None:
    (folder / "config.json").unlink()
    os.mkfifo(folder / "config.json")
    assert f"{folder / 'config.json'}: is no regular file" in refused(folder)
    (folder / "config.json").unlink()
    (folder / "config.json").symlink_to("/dev/zero")
    assert f"{folder / 'config.json'}: is no regular file" in refused(folder)
    (folder / "config.json").unlink()
    (folder / "config.json").symlink_to(folder / "config.json")
    assert f"{folder / 'config.json'}: cannot be read: Too many levels" in refused(folder)


def test_a_pipe_with_the_name_of_a_gguf_file(refused: Refused, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.gguf")
    assert f"{tmp_path / 'pipe.gguf'}: is no regular file" in refused(tmp_path / "pipe.gguf")


@pytest.fixture
def gguf_file(model: Path, tmp_path: Path, monkeypatch: MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return write_gguf(model, tmp_path / "tiny.gguf", Kind.F16)


@pytest.mark.parametrize(
    ("at", "content", "message"),
    [
        (0, b"GGML", "it does not begin with GGUF"),
        (4, struct.pack("<I", 1), "it has version 1 (2 and 3 can be read)"),
        (4, struct.pack(">I", 3), "it is big-endian"),
        (8, struct.pack("<Q", 1 << 60), "is truncated or no GGUF file"),
        (16, struct.pack("<Q", 1 << 60), "is truncated or no GGUF file"),
        (24, struct.pack("<Q", 1 << 60), "its header claims 1152921504606846976 bytes from byte 32 on"),
    ],
)
def test_a_gguf_file_with_another_beginning(
    gguf_file: Path, refused: Refused, at: int, content: bytes, message: str
) -> None:
    whole = bytearray(gguf_file.read_bytes())
    whole[at : at + len(content)] = content
    gguf_file.write_bytes(whole)
    found = refused(gguf_file)
    assert f"{gguf_file}: is truncated or no GGUF file" in found and message in found


@pytest.mark.parametrize("share", [0, 0.01, 0.1, 0.5, 0.999])
def test_a_gguf_file_cut_off_anywhere(gguf_file: Path, refused: Refused, share: float) -> None:
    whole = gguf_file.read_bytes()
    gguf_file.write_bytes(whole[: int(len(whole) * share)])
    assert f"{gguf_file}: is truncated or no GGUF file" in refused(gguf_file)


@pytest.mark.parametrize(
    ("behind", "content", "message"),
    [
        (4, struct.pack("<Q", 0), "which F16 cannot hold"),
        (4, struct.pack("<Q", 1 << 50), "ends at byte"),
        (20, struct.pack("<I", 999), "has the type number 999, which is not known"),
        (24, struct.pack("<Q", 1 << 50), "ends at byte"),
        (24, struct.pack("<Q", 0), "overlap"),
    ],
)
def test_a_gguf_tensor_that_cannot_be(
    gguf_file: Path, refused: Refused, behind: int, content: bytes, message: str
) -> None:
    """So far behind the name of a matrix come its width (4), its type (20) and its offset (24)."""
    whole, name = bytearray(gguf_file.read_bytes()), b"blk.1.ffn_up.weight"
    at = whole.find(name) + len(name) + behind
    whole[at : at + len(content)] = content
    gguf_file.write_bytes(whole)
    found = refused(gguf_file)
    assert "blk.1.ffn_up.weight" in found and message in found


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"general__architecture": "mamba"}, "architecture 'mamba' is not known"),
        ({"qwen2__block_count": None}, "field 'num_hidden_layers': is missing"),
        ({"qwen2__block_count": 5}, "lacks tensors 'model.layers.3"),
        ({"qwen2__rope__scaling__type": "yarn"}, "field 'rope.scaling.type' is 'yarn'"),
        ({"qwen2__rope__dimension_count": 8}, "rotated in part"),
        ({"split__count": 3}, "is one of 3 parts of a model"),
        ({"qwen2__embedding_length": 96}, "has shape [199, 48]; by the configuration it has [199, 96]"),
        ({"tokenizer__ggml__tokens": None}, "field 'tokenizer.ggml.tokens' is missing"),
        ({"tokenizer__ggml__model": "bert"}, "its tokenizer is of kind 'bert'"),
        ({"general__alignment": 3}, "general.alignment is 3, no power of two"),
    ],
)
def test_gguf_fields_that_cannot_be(
    model: Path, tmp_path: Path, monkeypatch: MonkeyPatch, refused: Refused, fields: dict[str, Any], message: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = write_gguf(model, tmp_path / "tiny.gguf", **fields)
    found = refused(path)
    assert str(path) in found and message in found
    assert list((tmp_path / "cache" / "schedlab" / "gguf").iterdir()) == []
