"""Reads Marian and OPUS-MT checkpoints in Hugging Face's format from a folder. Nothing of the folder is executed."""

from __future__ import annotations

import pickle
from pathlib import Path

import torch
from torch import Tensor

from transduce.core.config import Table
from transduce.core.errors import UserError
from transduce.models.weights import load_tensors
from transduce.wings.engines.foreign.marian import ACTIVATIONS
from transduce.wings.engines.importing.base import Foreign, Side, read_json
from transduce.wings.engines.importing.refusals import Kind, check_kinds
from transduce.wings.engines.sentencepiece import read_vocabulary

SAFE, PICKLED = "model.safetensors", "pytorch_model.bin"
COUNTS = ("d_model", *(f"{side}_{of}" for side in ("encoder", "decoder") for of in ("layers", "attention_heads")))
SIZES = (*COUNTS, "encoder_ffn_dim", "decoder_ffn_dim")
IDS = ("pad_token_id", "eos_token_id", "decoder_start_token_id")
ONLY = {
    "normalize_before": False,
    "add_final_layer_norm": False,
    "normalize_embedding": False,
    "extra_pos_embeddings": 0,
    "static_position_embeddings": True,
}
"""Keys of older config.json about the architecture, each with the only value that Hugging Face's Marian computes."""
KINDS: dict[str, Kind] = {
    "activation_function": "word",
    "model_type": "word",
    "dropout": "number",
    **dict.fromkeys(("scale_embedding", "tie_word_embeddings", "share_encoder_decoder_embeddings"), "flag"),
}
SEARCH: dict[str, Kind] = {
    "num_beams": "count",
    "max_length": "count",
    "length_penalty": "number",
    "bad_words_ids": "list",
    "renormalize_logits": "flag",
}
MOST_LAYERS = 1000


def read(folder: Path) -> Foreign:
    """The checkpoint in ``folder``: config.json, model.safetensors or pytorch_model.bin, source.spm, target.spm,
    vocab.json and, if both sides have vocabularies of their own, target_vocab.json.

    Raises FileNotFoundError if a file is missing. Raises UserError if a file is damaged or holds other Python objects
    than tensors, or if the model is no Marian Transformer.
    """
    config = checked_config(read_json(folder / "config.json"), folder / "config.json")
    generation = folder / "generation_config.json"
    options = {**config, **(read_json(generation) if generation.is_file() else {})}
    check_kinds(options, SEARCH, generation if generation.is_file() else folder / "config.json")
    other = folder / "target_vocab.json"
    vocabularies = folder / "vocab.json", other if other.is_file() else folder / "vocab.json"
    source, target = (
        _side(folder / f"{name}.spm", vocabulary)
        for name, vocabulary in zip(("source", "target"), vocabularies, strict=True)
    )
    banned = [words for words in options.get("bad_words_ids") or [] if words == [config["pad_token_id"]]]
    silent = bool(banned) and bool(options.get("renormalize_logits"))
    return Foreign(folder, config, read_tensors(folder), source, target, options, silent)


def _side(model: Path, vocabulary: Path) -> Side:
    for path in (model, vocabulary):
        if not path.is_file():
            raise FileNotFoundError(f"{path} is missing; copy the whole folder of the checkpoint")
    return Side((model, vocabulary), model.read_bytes(), read_vocabulary(vocabulary))


def checked_config(config: Table, origin: Path) -> Table:
    """The config, unchanged. Raises UserError, which names the key, unless it describes a Marian Transformer."""
    check_kinds(config, KINDS, origin)
    if config.get("model_type") != "marian":
        raise UserError(
            f"{origin}: model_type = {config.get('model_type')!r}: only marian is imported, as OPUS-MT has it"
        )
    for name in (*SIZES, *IDS):
        value, least = config.get(name), 0 if name in IDS else 1
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise UserError(f"{origin}: {name} = {value!r}: a whole number of at least {least} was expected")
    for side in ("encoder", "decoder"):
        if config[f"{side}_layers"] > MOST_LAYERS:
            raise UserError(f"{origin}: {side}_layers = {config[f'{side}_layers']}: at most {MOST_LAYERS} layers")
    if config.get("activation_function") not in ACTIVATIONS:
        raise UserError(
            f"{origin}: activation_function = {config.get('activation_function')!r}: {', '.join(ACTIVATIONS)} were "
            "expected"
        )
    for name, value in ONLY.items():
        if config.get(name, value) != value:
            raise UserError(f"{origin}: {name} = {config[name]!r}: Hugging Face's Marian computes only {value!r}")
    return config


def read_tensors(folder: Path) -> dict[str, Tensor]:
    """The parameters by name, from model.safetensors or else pytorch_model.bin. Raises UserError for a damaged file
    and for a pickle with other objects than tensors, which could run code.
    """
    if (folder / SAFE).is_file():
        return load_tensors(folder / SAFE)
    if not (folder / PICKLED).is_file():
        raise FileNotFoundError(f"{folder} has neither {SAFE} nor {PICKLED}; copy the whole folder of the checkpoint")
    found = unpickled(folder / PICKLED)
    if not isinstance(found, dict) or not all(map(is_dense, found.values())):
        raise UserError(f"{folder / PICKLED} is no table of dense tensors, as a checkpoint has it; copy it again")
    return found


def is_dense(value: object) -> bool:
    """True for a dense tensor in memory. A tensor of the device "meta" has a shape and no numbers."""
    return isinstance(value, Tensor) and not (value.is_meta or value.is_quantized) and value.layout == torch.strided


def unpickled(path: Path) -> object:
    """The content of a PyTorch file that has only tensors, tables, lists and numbers. Raises UserError for other
    objects, which unpickling would run as code, and for a damaged file.
    """
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise UserError(
            f"{path} holds other Python objects than tensors, and unpickling them can run code, so it is not read "
            f"({' '.join(str(error).split())[:200]}); write the parameters as safetensors where you trust the file"
        ) from error
    except (RuntimeError, EOFError, ValueError, KeyError) as error:
        raise UserError(f"{path} is damaged ({' '.join(str(error).split())[:200]}); copy it again") from error
